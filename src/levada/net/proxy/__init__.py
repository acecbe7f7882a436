"""Connections through a proxy: SOCKS5, and HTTP's CONNECT. Begin with handshake.py."""
