"""Python of executors that has imported the engine before it forks its workers."""

import priormtl.engines.spark  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
