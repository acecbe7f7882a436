"""levada registry: the subjects, schemas and compatibility levels of a schema registry."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from levada.cli.arguments import Yes
from levada.cli.command import command, command_group
from levada.cli.exits import Exit
from levada.cli.invocation import Invocation, confirm
from levada.cli.outcomes import OutcomeRow, show_outcomes
from levada.registry import Schema

app = command_group("A schema registry: subjects, versions, schemas, compatibility.")

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="Name of the subject, such as orders-value.", show_default=False)]
Version = Annotated[str, typer.Option("--version", help="A version number, or latest.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="File with the schema; - for standard input.", show_default=False)]


class SchemaType(StrEnum):
    """The languages of schemas."""

    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"


Type = Annotated[SchemaType, typer.Option("--type", help="Language of the schema.")]


class SubjectRow(NamedTuple):
    """A subject. It usually has the schemas of the keys or values of a topic."""

    subject: str


class VersionRow(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    type: str


class SchemaRow(NamedTuple):
    """A schema. subject, version: None if all versions with this schema are deleted.

    references: other schemas that it uses, each as name, subject and version.
    """

    subject: str | None
    version: int | None
    schema_id: int
    type: str
    references: tuple[tuple[str, str, int], ...]
    schema: str


class CompatibilityRow(NamedTuple):
    """Whether a schema is compatible. messages: the registry's reasons why it is not."""

    subject: str
    compatible: bool
    messages: tuple[str, ...]


class LevelRow(NamedTuple):
    """The compatibility level of a subject, or of all subjects that have no level of their own."""

    subject: str
    level: str


@command(app)
def subjects(
    invocation: Invocation,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only names with this prefix.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include soft-deleted subjects.")] = False,
) -> None:
    """List subjects."""
    with invocation.registry() as registry:
        invocation.show([SubjectRow(name) for name in registry.get_subjects(prefix, deleted)], SubjectRow._fields)


@command(app)
def versions(
    invocation: Invocation,
    subject: Subject,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include soft-deleted versions.")] = False,
) -> None:
    """List the versions of a subject."""
    with invocation.registry() as registry:
        found = [registry.get_version(subject, version, deleted) for version in registry.get_versions(subject, deleted)]
    invocation.show([VersionRow(one.subject, one.version, one.schema_id, one.schema.schema_type) for one in found], VersionRow._fields)


@command(app)
def schema(
    invocation: Invocation,
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", show_default=False)] = None,
    version: Version = "latest",
    schema_id: Annotated[int | None, typer.Option("--id", help="Instead of SUBJECT: id of the schema.")] = None,
) -> None:
    """Show the schema of a subject's version, or the schema with an id."""
    if (subject is None) == (schema_id is None):
        raise typer.BadParameter("give one of SUBJECT and --id")
    with invocation.registry() as registry:
        if subject is not None:
            found = registry.get_version(subject, _version(version))
            rows = [_schema_row(found.subject, found.version, found.schema_id, found.schema)]
        else:
            assert schema_id is not None
            text = registry.get_schema(schema_id)
            # A schema of deleted versions is still there, because records have its id.
            places = registry.get_schema_versions(schema_id)
            rows = [_schema_row(name, number, schema_id, text) for name, number in places or ((None, None),)]
    invocation.show(rows, SchemaRow._fields)


@command(app)
def register(invocation: Invocation, subject: Subject, file: File, schema_type: Type = SchemaType.AVRO) -> None:
    """Register a schema under a subject. A schema that is registered already keeps its id."""
    wanted = Schema(_text(file), schema_type.upper())
    with invocation.registry() as registry:
        registry.register_schema(subject, wanted)
        found = registry.lookup_schema(subject, wanted)
    invocation.show([VersionRow(found.subject, found.version, found.schema_id, found.schema.schema_type)], VersionRow._fields)


@command(app)
def test(invocation: Invocation, subject: Subject, file: File, schema_type: Type = SchemaType.AVRO, version: Version = "latest") -> Exit:
    """Check whether a schema is compatible with a version of a subject at the subject's level. The exit code is 1 if it is not."""
    with invocation.registry() as registry:
        found = registry.test_compatibility(subject, Schema(_text(file), schema_type.upper()), _version(version))
        if found and registry.get_compatibility(subject) == "NONE":
            invocation.say(f"nothing was compared: the level of {subject} is NONE, at which every schema is compatible")
    invocation.show([CompatibilityRow(subject, found.is_compatible, found.messages)], CompatibilityRow._fields)
    return Exit.DONE if found else Exit.FAILED


@command(app)
def compatibility(
    invocation: Invocation,
    subject: Annotated[
        str | None, typer.Argument(metavar="[SUBJECT]", help="Default: the registry's own level.", show_default=False)
    ] = None,
    level: Annotated[
        str | None, typer.Option("--set", metavar="LEVEL", help="BACKWARD, FORWARD or FULL, each also with _TRANSITIVE, or NONE.")
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Remove the subject's level, so that the registry's level applies.")] = False,
) -> None:
    """Show, set or remove the compatibility level of a subject, or show or set the registry's own level."""
    if unset and (subject is None or level is not None):
        raise typer.BadParameter("--unset needs a SUBJECT, and does not go with --set")
    with invocation.registry() as registry:
        if level is not None:
            registry.set_compatibility(subject, level.upper())
        if unset and subject is not None:
            registry.delete_compatibility(subject)
        invocation.show([LevelRow(subject or "(all others)", registry.get_compatibility(subject))], LevelRow._fields)


@command(app)
def delete(
    invocation: Invocation,
    subject: Subject,
    version: Annotated[str | None, typer.Option("--version", help="Only this version: a number, or latest.")] = None,
    permanent: Annotated[
        bool,
        typer.Option("--permanent", help="Delete it for good, after it was soft-deleted. Records with its id can then not be decoded."),
    ] = False,
    yes: Yes = False,
) -> Exit:
    """Delete a subject or one of its versions. Without --permanent it is soft-deleted: its schemas can still be read by id."""
    what = f"version {version} of subject {subject}" if version else f"subject {subject} with all its versions"
    confirm(f"Delete {what}{' for good' if permanent else ''}?", yes=yes)
    with invocation.registry() as registry:
        if version is None:
            numbers = registry.delete_subject(subject, permanent)
        else:
            numbers = [registry.delete_version(subject, _version(version), permanent)]
    return show_outcomes(
        invocation, [OutcomeRow(subject, f"deleted {'for good' if permanent else 'softly'}: versions {', '.join(map(str, numbers))}")]
    )


def _version(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _text(file: str) -> str:
    return sys.stdin.read() if file == "-" else Path(file).read_text()


def _schema_row(subject: str | None, version: int | None, schema_id: int, found: Schema) -> SchemaRow:
    references = tuple((one.name, one.subject, one.version) for one in found.references)
    return SchemaRow(subject, version, schema_id, found.schema_type, references, found.schema_str)
