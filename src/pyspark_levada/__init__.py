"""Makes `format("levada")` known: PySpark looks for modules named pyspark_* and registers their DefaultSource."""

from levada.spark.datasource import LevadaDataSource

DefaultSource = LevadaDataSource
