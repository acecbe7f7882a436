"""Declarations of all settings of the clients: name, type, default, bounds and meaning."""

from levada.config.base import Config
from levada.config.client import AdminConfig, ClientConfig
from levada.config.consumer import ConsumerConfig
from levada.config.producer import ProducerConfig
from levada.config.registry import JSONSerializerConfig, RegistryConfig, SerializerConfig
from levada.config.share_consumer import ShareConsumerConfig

__all__ = [
    "AdminConfig",
    "ClientConfig",
    "Config",
    "ConsumerConfig",
    "JSONSerializerConfig",
    "ProducerConfig",
    "RegistryConfig",
    "SerializerConfig",
    "ShareConsumerConfig",
]
