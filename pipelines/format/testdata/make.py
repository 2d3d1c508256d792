"""Writes types.parquet, of which each column has a type of its own, by pyarrow 26.0.1: python3 make.py"""
import datetime as d
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

at = d.datetime(2024, 2, 29, 12, 30, 1, 5000)
columns = {
    "bool": (pa.bool_(), True), "int8": (pa.int8(), -8), "int32": (pa.int32(), -32), "int64": (pa.int64(), 1 << 62), "uint8": (pa.uint8(), 200),
    "uint32": (pa.uint32(), 4_000_000_000), "uint64": (pa.uint64(), 1 << 62), "half": (pa.float16(), np.float16(-0.1)),
    "float": (pa.float32(), 0.1), "double": (pa.float64(), 0.1), "text": (pa.string(), "größe"), "binary": (pa.binary(), b"\0\xff"),
    "fixed": (pa.binary(3), b"abc"), "uuid": (pa.uuid(), bytes(range(16))), "date": (pa.date32(), d.date(1969, 12, 31)),
    "time_ms": (pa.time32("ms"), d.time(1, 2, 3, 4000)), "time_us": (pa.time64("us"), d.time(23, 59, 59, 999999)),
    "time_ns": (pa.time64("ns"), 86_399_999_999_999),
    "at_ms": (pa.timestamp("ms", "UTC"), at), "at_us": (pa.timestamp("us", "UTC"), d.datetime(1, 1, 1)), "at_ns": (pa.timestamp("ns", "UTC"), 1_709_209_801_005_000_007),
    "local_ms": (pa.timestamp("ms"), at), "local_us": (pa.timestamp("us"), at), "local_ns": (pa.timestamp("ns"), -1),
    "decimal9": (pa.decimal128(9, 2), decimal.Decimal("-12.05")), "decimal18": (pa.decimal128(18, 0), decimal.Decimal("123456789012345678")),
    "decimal38": (pa.decimal128(38, 10), decimal.Decimal("-1234567890123456789012345678.0123456789")),
    "struct": (pa.struct([("a", pa.int32()), ("b", pa.struct([("at", pa.timestamp("ms"))]))]), {"a": 1, "b": {"at": at}}),
    "list": (pa.list_(pa.decimal128(5, 1)), [decimal.Decimal("0.5"), None, decimal.Decimal("-1000.0")]), "empty": (pa.list_(pa.int64()), []),
    "structs": (pa.list_(pa.struct([("x", pa.float32()), ("y", pa.list_(pa.string()))])), [{"x": 0.5, "y": ["p", "q"]}, {"x": None, "y": []}, None, {"x": 1, "y": None}]),
    "map": (pa.map_(pa.string(), pa.date32()), {"k": d.date(2000, 1, 1), "l": None}),
    "pairs": (pa.map_(pa.int32(), pa.string()), {1: "a", 2: None}),
}
schema = pa.schema([(name, t) for name, (t, _) in columns.items()])
rows = [{name: v for name, (_, v) in columns.items()}, dict.fromkeys(columns)]
if __name__ == "__main__":
    pq.write_table(pa.Table.from_pylist(rows, schema), "types.parquet", compression="zstd", write_statistics=False, store_schema=False)
    old = pa.table({"int96": pa.array([at], pa.timestamp("ns"))})
    pq.write_table(old, "int96.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
