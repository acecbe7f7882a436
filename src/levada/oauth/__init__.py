"""Tokens for OAUTHBEARER: where they come from. The engine does not know this package; api/logins hands its functions over.

A program names the token endpoints that it trusts with allow_token_endpoints().
"""

from levada.oauth.endpoint import allow_token_endpoints

__all__ = ["allow_token_endpoints"]
