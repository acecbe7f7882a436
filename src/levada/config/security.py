"""Keys of TLS and SASL, under Java's names. Names of other clients are read as aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levada.config import jaas
from levada.config.oauth import OAUTHBEARER, OAuthConfig
from levada.config.option import HIDDEN, Option, Secret, boolean, choice, file_name, java_class, mechanism, names, text, tls_context
from levada.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = frozenset({"SSL", "SASL_SSL"})
SASL_PROTOCOLS = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
AWS_MSK_IAM = "AWS_MSK_IAM"
GSSAPI = "GSSAPI"
OF_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*OF_PASSWORDS, OAUTHBEARER, GSSAPI, AWS_MSK_IAM)
_LONGEST_PEM = 1 << 20


def _pem(doc: str, *, aliases: tuple[str, ...] = (), secret: bool = False) -> Any:
    """Declare text in PEM: a certificate chain, a bundle of authorities, or a key. It may be longer than other texts."""

    def read(value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or "-----BEGIN " not in value or len(value) > _LONGEST_PEM:
            shown = HIDDEN if secret else f"{type(value).__name__} without it" if isinstance(value, str) else type(value).__name__
            raise ValueError(f"expected text in PEM, with -----BEGIN ...-----, got {shown}")
        return Secret(value) if secret else value

    return Option("text", read, None, doc, "PEM", "str | None", aliases=aliases, secret=secret)


class SecurityConfig(OAuthConfig):
    """Settings of TLS and SASL."""

    security_protocol: str = choice(
        "PLAINTEXT",
        PROTOCOLS,
        "Whether connections use TLS (SSL and SASL_SSL) and log in (SASL_PLAINTEXT and SASL_SSL).",
    )
    sasl_mechanism: Any = mechanism(
        MECHANISMS,
        "SASL mechanism to log in with. Required with SASL_PLAINTEXT and SASL_SSL: there is no default, unlike in Java's client, where it "
        "is GSSAPI. Give an object for a mechanism of your own (levada.SaslMechanism).",
        advice="an object with name and begin() is a mechanism of your own",
        aliases=("sasl.mechanisms",),
    )
    sasl_username: str | None = text(
        None, "User for PLAIN and SCRAM. Not a setting of Java's client, which has sasl.jaas.config.", aliases=("sasl.plain.username",)
    )
    sasl_password: str | None = text(None, "Password of sasl.username.", aliases=("sasl.plain.password",), secret=True)
    sasl_tokenauth: bool = boolean(
        False,
        "For SCRAM: true if sasl.username is the id of a delegation token, and sasl.password the token's HMAC in base64 (KIP-48). Not a "
        "setting of Java's client, which has tokenauth in sasl.jaas.config.",
    )
    sasl_jaas_config: str | None = text(
        None,
        "Login module and its options, in the format of Java's client: PlainLoginModule or ScramLoginModule with username, password and "
        "tokenauth; OAuthBearerLoginModule with clientId, clientSecret and scope; Krb5LoginModule with keyTab, principal and serviceName; "
        "or IAMLoginModule. It is read as data, and no class is loaded.",
        secret=True,
    )
    sasl_client_callback_handler_class: str = java_class(
        ("IAMClientCallbackHandler",),
        "Accepted so that Java's settings for AWS_MSK_IAM work unchanged. No class is loaded.",
        advice="leave it out",
    )
    sasl_kerberos_service_name: str | None = text(
        None,
        "For GSSAPI: the first part of the brokers' principals; the second part is the broker's host. Default: serviceName in "
        "sasl.jaas.config, else kafka. Java's client has no default.",
    )
    sasl_kerberos_principal: str | None = text(
        None,
        "For GSSAPI: the principal to log in as. Default: the first principal in sasl.kerberos.keytab, else the principal of the tickets "
        "that kinit fetched. Java's client has it in sasl.jaas.config.",
    )
    sasl_kerberos_keytab: str | None = file_name(
        "For GSSAPI: file with the key of sasl.kerberos.principal. The client fetches tickets with it into memory, and renews them before "
        "they expire. Java's client has it in sasl.jaas.config. Default: use the tickets of kinit.",
    )
    sasl_aws_region: str | None = text(
        None,
        "For AWS_MSK_IAM: the AWS region to sign requests for. Default: the region in the broker's host name, else the one that botocore "
        "finds. Not a Kafka setting.",
    )
    sasl_aws_profile: str | None = text(
        None, "For AWS_MSK_IAM: the profile whose credentials to use. Default: the credentials that botocore finds. Not a Kafka setting."
    )
    ssl_truststore_location: str | None = file_name(
        "File with the certificates of the authorities to trust. Default: those that the system trusts.",
        aliases=("ssl.ca.location", "ssl.cafile"),
    )
    ssl_truststore_type: str = choice(
        "PEM",
        ("PEM", "PKCS12"),
        "Format of ssl.truststore.location. PKCS12 needs the package cryptography: levada[pkcs12].",
        advice="convert a Java keystore with keytool -importkeystore ... -deststoretype PKCS12",
    )
    ssl_truststore_password: str | None = text(None, "Password of ssl.truststore.location; only for PKCS12.", secret=True)
    ssl_truststore_certificates: str | None = _pem(
        "The certificates of the authorities to trust, as text, instead of a file.", aliases=("ssl.ca.pem", "ssl.cadata")
    )
    ssl_keystore_location: str | None = file_name(
        "File with this client's certificate, the chain that it was signed with, and its key, for brokers with ssl.client.auth."
    )
    ssl_keystore_type: str = choice(
        "PEM",
        ("PEM", "PKCS12"),
        "Format of ssl.keystore.location. PKCS12 needs the package cryptography: levada[pkcs12].",
        advice="convert a Java keystore with keytool -importkeystore ... -deststoretype PKCS12",
    )
    ssl_keystore_password: str | None = text(None, "Password of ssl.keystore.location; only for PKCS12.", secret=True)
    ssl_keystore_certificate_chain: str | None = _pem(
        "This client's certificate and the chain that it was signed with, as text, instead of a file.", aliases=("ssl.certificate.pem",)
    )
    ssl_keystore_key: str | None = _pem(
        "This client's key, as text, with ssl.keystore.certificate.chain.", aliases=("ssl.key.pem",), secret=True
    )
    ssl_certificate_location: str | None = file_name(
        "PEM file with this client's certificate and its chain; it may also have the key. Not a setting of Java's client.",
        aliases=("ssl.certfile",),
    )
    ssl_key_location: str | None = file_name(
        "PEM file with the key of ssl.certificate.location. Default: the key is in that file. Not a setting of Java's client.",
        aliases=("ssl.keyfile",),
    )
    ssl_key_password: str | None = text(None, "Password of an encrypted key in PEM.", aliases=("ssl.password",), secret=True)
    ssl_enabled_protocols: tuple[str, ...] = names(
        ("TLSv1.2", "TLSv1.3"), "Versions of TLS to accept.", known=("TLSv1.2", "TLSv1.3"), advice="older versions are not safe"
    )
    ssl_cipher_suites: tuple[str, ...] = names(
        (), "Cipher suites for TLS 1.2, under OpenSSL's names. Default: OpenSSL's choice.", aliases=("ssl.ciphers",)
    )
    ssl_endpoint_identification_algorithm: str = choice(
        "https",
        ("https",),
        "Always https: the host name or address that the client connects to must be in the broker's certificate, unless "
        "ssl.dangerously.accept.any.host.name is set.",
        advice="to accept certificates of any name, set ssl.dangerously.accept.any.host.name=true",
    )
    ssl_dangerously_accept_any_host_name: bool = boolean(
        False,
        "Accept a trusted certificate with any host name. Anyone with a certificate of the same authority can then read and change all "
        "traffic. Not a Kafka setting.",
    )
    ssl_context: Any = tls_context("An ssl.SSLContext to use instead of the other ssl settings. Not a Kafka setting.")

    def _check(self) -> None:
        self._check_login()
        given = sorted(name for name in self.given if name.startswith("ssl."))
        if given and self.security_protocol not in TLS_PROTOCOLS:
            better = "SASL_SSL" if self.security_protocol in SASL_PROTOCOLS else "SSL"
            protocol = f"security.protocol={self.security_protocol}"
            raise ConfigError(f"{self._named(given[0])} is set, but {protocol} has no TLS; did you mean {better}?")
        if self.ssl_context is not None and len(given) > 1:
            other = next(name for name in given if name != "ssl.context")
            raise ConfigError(f"'ssl.context' and {self._named(other)} exclude each other")
        self._check_one_of("ssl.truststore.location", "ssl.truststore.certificates")
        self._check_one_of("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.certificate.location")
        self._check_goes_with("ssl.keystore.key", "ssl.keystore.certificate.chain")
        self._check_goes_with("ssl.keystore.certificate.chain", "ssl.keystore.key")
        self._check_goes_with("ssl.key.location", "ssl.certificate.location")

    @property
    def mechanism_name(self) -> str:
        """The SASL mechanism's name, or "" if none is set."""
        name: str = self.sasl_mechanism if isinstance(self.sasl_mechanism, str) else self.sasl_mechanism.name
        return name

    def _check_login(self) -> None:
        given = sorted(name for name in self.given if name.startswith("sasl."))
        if self.security_protocol not in SASL_PROTOCOLS:
            if given:
                protocol = f"security.protocol={self.security_protocol}"
                raise ConfigError(f"{self._named(given[0])} is set, but {protocol} has no login; did you mean SASL_SSL?")
            return
        if not self.sasl_mechanism:
            raise ConfigError(f"security.protocol={self.security_protocol} needs 'sasl.mechanism': one of {', '.join(MECHANISMS)}")
        self._check_goes_with_mechanism()
        if self.sasl_jaas_config is not None:
            self._check_one_of("sasl.jaas.config", "sasl.username")
            self._check_one_of("sasl.jaas.config", "sasl.password")
            self._check_one_of("sasl.jaas.config", "sasl.oauth.token.provider")
            self._take_login(self.sasl_jaas_config)
        if self.sasl_mechanism == OAUTHBEARER:
            self._check_tokens()
        if self.sasl_mechanism not in OF_PASSWORDS:
            return
        for name, value in (("sasl.username", self.sasl_username), ("sasl.password", self.sasl_password)):
            if not value:
                raise ConfigError(f"sasl.mechanism={self.sasl_mechanism} needs '{name}'")

    def _check_goes_with_mechanism(self) -> None:
        """Raise ConfigError for a setting of another mechanism: the user probably believes that the other mechanism is in use."""
        belongs = {
            "sasl.username": OF_PASSWORDS,
            "sasl.password": OF_PASSWORDS,
            "sasl.tokenauth": OF_PASSWORDS[1:],
            "sasl.oauth": (OAUTHBEARER,),
            "sasl.kerberos.": (GSSAPI,),
            "sasl.aws.": (AWS_MSK_IAM,),
            "sasl.jaas.config": MECHANISMS,
        }
        for name in sorted(self.given):
            mechanisms = next((found for prefix, found in belongs.items() if name.startswith(prefix)), None)
            if mechanisms is not None and self.sasl_mechanism not in mechanisms:
                raise ConfigError(f"{self._named(name)} is set, but belongs to {', '.join(mechanisms)}, not to {self.mechanism_name}")

    def _take_login(self, jaas_config: str) -> None:
        try:
            login = jaas.read(jaas_config)
        except ValueError as error:
            raise ConfigError(f"'sasl.jaas.config': {error}") from None
        if self.sasl_mechanism not in jaas.MECHANISMS[login.module]:
            module = login.module.rpartition(".")[2]
            raise ConfigError(f"'sasl.jaas.config': {module} is not the login module of sasl.mechanism={self.sasl_mechanism}")
        if self.sasl_mechanism == OAUTHBEARER:
            self._take_oauth_login(login.options)
            return
        if self.sasl_mechanism == AWS_MSK_IAM:
            self._settle("sasl_aws_profile", self.sasl_aws_profile or login.options.get("awsProfileName"))
            return
        if self.sasl_mechanism == GSSAPI:
            self._take_kerberos_login(login.options)
            return
        if login.options.get("tokenauth", "").lower() == "true":
            self._settle("sasl_tokenauth", True)
        self._settle("sasl_username", login.options.get("username"))
        self._settle("sasl_password", login.options.get("password"))

    def _take_kerberos_login(self, options: Mapping[str, str]) -> None:
        if options.get("useKeyTab", "").lower() == "true" and "keyTab" not in options:
            raise ConfigError("'sasl.jaas.config': useKeyTab=true needs keyTab; the machine's default keytab is not looked for")
        of_module = {"service_name": "serviceName", "principal": "principal", "keytab": "keyTab"}
        for name, java_name in of_module.items():
            field = f"sasl_kerberos_{name}"
            self._settle(field, getattr(self, field) or options.get(java_name))

    def _check_one_of(self, *options: str) -> None:
        if len(given := [name for name in options if name in self.given]) > 1:
            raise ConfigError(f"{self._named(given[0])} and {self._named(given[1])} exclude each other")

    def _check_goes_with(self, option: str, other: str) -> None:
        if option in self.given and other not in self.given:
            raise ConfigError(f"{self._named(option)} needs '{other}'")
