"""Makes `format("penstock")` known: PySpark looks for modules named pyspark_* and registers their DefaultSource."""

from penstock.spark.datasource import PenstockDataSource

DefaultSource = PenstockDataSource
