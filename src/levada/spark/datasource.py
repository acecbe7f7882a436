"""The data source that Spark uses for `format("levada")`."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from levada.errors import ConfigError
from levada.formats.columns import Typed
from levada.spark.options.options import SinkOptions, SourceOptions, sink_options, source_options
from levada.spark.pyspark_versions import for_this_pyspark
from levada.spark.schema import check_names, check_schema, record_schema
from levada.spark.sink.writing import BatchWriter, StreamWriter, begin_writing, sink_columns
from levada.spark.source.batch import BatchReader
from levada.spark.source.stream import StreamReader


class LevadaDataSource(DataSource):
    """Source and sink of Kafka records.

    Spark makes an instance when a program calls load(), save() or start(), and sends pickled copies to the processes that plan and write.
    """

    _typed: Typed | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name for `.format()`."""
        return "levada"

    def schema(self) -> StructType:
        """Return the columns of a source. If a format needs the registry's schema, look it up. Raises ConfigError.

        Spark calls this in load(), so a wrong option fails in load() and not when the query runs.
        """
        options = source_options(self.options, streaming=None)
        self._typed = options.typed.pinned()
        return record_schema(options.include_headers, options.columns, self._typed)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the source of a batch query. Raises ConfigError."""
        options = self._source_options(schema, streaming=False)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the source of a streaming query. Raises ConfigError."""
        options = self._source_options(schema, streaming=True)
        return for_this_pyspark(StreamReader(options, schema), options.is_available_now)

    def _sink_options(self) -> SinkOptions:
        options = sink_options(self.options)
        return replace(options, formats={side: chosen.pinned() for side, chosen in options.formats.items()})

    def _source_options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        """Return the options, with the registry schemas that schema() has looked up.

        If the user gives a schema, Spark does not call schema(). Then this method looks them up.
        """
        options = source_options(self.options, streaming=streaming)
        typed = self._typed or options.typed.pinned()
        check_names(options.columns, typed)
        check_schema(schema, typed)
        return replace(options, typed=typed)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the sink of a batch query.

        Raises ConfigError for a wrong option, wrong columns and mode overwrite, and UnknownTopicOrPartitionError.

        An exactlyOnce.id without exactlyOnce.batchId is allowed only within a micro-batch. write_kafka() and the tasks check that. This
        method cannot, because Spark does not tell it whether the write is part of a micro-batch.
        """
        if overwrite:
            raise ConfigError("a topic cannot be overwritten; write with .mode('append')")
        options = self._sink_options()
        columns = sink_columns(schema, options)
        begin_writing(options)
        return BatchWriter(options, columns)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the sink of a streaming query. Output mode complete (overwrite) appends the whole result again, like Spark's own sink.

        Raises ConfigError for a wrong option or wrong columns, and UnknownTopicOrPartitionError.
        """
        options = self._sink_options()
        columns = sink_columns(schema, options)
        if options.exactly_once is not None:
            options.exactly_once.check_stream()
        begin_writing(options)
        return StreamWriter(options, columns)
