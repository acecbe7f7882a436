"""The format "levada", as Spark finds it."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from levada.errors import ConfigError
from levada.spark.batch_source import BatchReader
from levada.spark.options import sink_options, source_options
from levada.spark.schema import check_schema, record_schema
from levada.spark.sink import BatchWriter, StreamWriter, sink_columns
from levada.spark.stream_source import StreamReader


class LevadaDataSource(DataSource):
    """Source and sink of Kafka records. Spark makes a new one, in whichever process it needs it, for each question it asks."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `.format()`."""
        return "levada"

    def schema(self) -> StructType:
        """Return the columns of a source. Called by load(), so that a wrong option shows up there and not when the query runs."""
        try:
            options = source_options(self.options, streaming=False)
        except ConfigError:
            # Spark does not say here which of the two it is; only a batch query may have an end.
            if any(name.lower().startswith("ending") for name in self.options):
                raise
            options = source_options(self.options, streaming=True)
        return record_schema(options.include_headers, options.columns, options.typed)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the source of a batch query."""
        options = source_options(self.options, streaming=False)
        check_schema(schema, options.typed)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the source of a streaming query."""
        options = source_options(self.options, streaming=True)
        check_schema(schema, options.typed)
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the sink of a batch query."""
        if overwrite:
            raise ConfigError("a topic cannot be overwritten; write with .mode('append')")
        options = sink_options(self.options)
        return BatchWriter(options, sink_columns(schema, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the sink of a streaming query. Output mode complete (overwrite) appends the whole result again, as Spark's own does."""
        options = sink_options(self.options)
        return StreamWriter(options, sink_columns(schema, options))
