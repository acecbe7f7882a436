"""levada broker: runs a Kafka broker for development, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levada.broker.foreground import InsecureListenError, Listening, TlsFileError, properties, serve, setting
from levada.cli.command import command
from levada.cli.invocation import Invocation
from levada.cli.private_files import read_private
from levada.errors import ConfigError

app = typer.Typer(add_completion=False)

_MOST_PORTS = 65_535


@command(app)
def broker(
    invocation: Invocation,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 for any free port.", min=0, max=_MOST_PORTS)] = 9092,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Keep all data in this folder, and use them again at the next start. Default: in memory."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A broker setting, such as num.partitions=4 or node.id=0; repeat it for more."),
    ] = None,
    properties_file: Annotated[
        Path | None,
        typer.Option(
            "--properties",
            metavar="FILE",
            help="A file with broker settings, like Kafka's server.properties: a line NAME=VALUE for each. --set overrides it.",
        ),
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Use TLS with this certificate: a PEM file.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The certificate's key: a PEM file.")] = None,
    client_ca: Annotated[
        Path | None, typer.Option("--client-ca", help="Require client certificates that one of these authorities has signed: a PEM file.")
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option("--users", help="Require clients to log in by PLAIN or SCRAM: a file with a line NAME=PASSWORD for each user."),
    ] = None,
    insecure_listen: Annotated[
        bool,
        typer.Option("--insecure-listen", help="Allow a --host that other machines can reach, even if clients need not log in over TLS."),
    ] = False,
) -> None:
    """Run a Kafka broker for tests and development, until Ctrl-C."""
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--certificate and --key go together")
    if client_ca is not None and certificate is None:
        raise typer.BadParameter("--client-ca needs --certificate and --key")
    for option, file in (("--certificate", certificate), ("--key", key), ("--client-ca", client_ca)):
        _check_readable(option, file)
    listening = Listening(host, port, _text(certificate), _text(key), _text(client_ca), _users(users), insecure_listen)
    given = {} if properties_file is None else properties(str(properties_file))
    given.update(setting(text) for text in settings or ())
    try:
        serve(listening, _text(data_dir), given, lambda told: typer.echo(f"levada broker: {told}"))
    except TlsFileError as wrong:
        raise ConfigError(_in_our_words(wrong, listening)) from wrong
    except InsecureListenError as wrong:
        raise ConfigError(f"{wrong.reason}; listen on 127.0.0.1, or give --insecure-listen if you want that") from wrong
    except KeyboardInterrupt:
        typer.echo("levada broker: ended")


def _in_our_words(wrong: TlsFileError, listening: Listening) -> str:
    if wrong.option == "ssl.truststore.location":
        return f"--client-ca {listening.client_authorities} {wrong.reason}"
    return f"--certificate {listening.certificate} with --key {listening.key} {wrong.reason}; the key has to be one without a password"


def _check_readable(option: str, file: Path | None) -> None:
    """Raise BadParameter with the option's name if its file cannot be opened."""
    try:
        if file is not None:
            file.open("rb").close()
    except OSError as fault:
        raise typer.BadParameter(f"{option} {file}: {fault.strerror}") from None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _users(file: Path | None) -> dict[str, str] | None:
    if file is None:
        return None
    try:
        text = read_private(file, "the file of users", others_may_read=False)
    except OSError as fault:
        raise typer.BadParameter(f"--users {file}: {fault.strerror}") from None
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            name, equals, password = line.partition("=")
            if not name or not equals:
                # The error does not show the line, because it probably contains a password.
                raise typer.BadParameter(f"{file}: line {number} is not NAME=PASSWORD")
            users[name] = password
    return users
