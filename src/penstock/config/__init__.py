"""Every setting of the clients, declared once: name, type, default, bounds, meaning."""

from penstock.config.base import Config
from penstock.config.client import AdminConfig, ClientConfig
from penstock.config.consumer import ConsumerConfig
from penstock.config.producer import ProducerConfig

__all__ = ["AdminConfig", "ClientConfig", "Config", "ConsumerConfig", "ProducerConfig"]
