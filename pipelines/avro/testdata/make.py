"""Writes the files of this folder, by fastavro 1.13.1 with cramjam 2.14.0 and backports.zstd: python3 make.py"""
import datetime as d
import decimal
import uuid

import fastavro

SCHEMA = fastavro.parse_schema({
    "type": "record", "name": "row", "namespace": "a.b", "fields": [
        {"name": "null", "type": "null"},
        {"name": "bool", "type": "boolean"},
        {"name": "int", "type": "int"},
        {"name": "long", "type": {"type": "long"}},
        {"name": "float", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "bytes", "type": "bytes"},
        {"name": "string", "type": ["null", "string"]},
        {"name": "fixed", "type": {"type": "fixed", "name": "three", "size": 3}},
        {"name": "fixed_again", "type": ["null", "three"]},
        {"name": "enum", "type": {"type": "enum", "name": "c.e", "symbols": ["A", "B"]}},
        {"name": "array", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "record", "name": "in", "fields": [{"name": "n", "type": "long"}]}}},
        {"name": "either", "type": ["null", "string", "long", "in"]},
        {"name": "tree", "type": {"type": "record", "name": "tree", "fields": [
            {"name": "name", "type": "string"}, {"name": "under", "type": {"type": "array", "items": "tree"}}]}},
        {"name": "decimal", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}},
        {"name": "decimal_fixed", "type": {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 3}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "date", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time_millis", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "time_micros", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "timestamp_millis", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "timestamp_micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "timestamp_nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "local_millis", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "local_micros", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    ]})


def row(i):
    at = d.datetime(2024, 2, 29, 12, 30, 1, 5000)
    utc = at.replace(tzinfo=d.timezone.utc)
    return {
        "null": None, "bool": i % 2 == 1, "int": -i, "long": 1 << 62, "float": 0.5, "double": 0.1, "bytes": b"\0\xff", "string": "größe",
        "fixed": b"abc", "fixed_again": b"xyz", "enum": "B", "array": [1, None], "map": {"k": {"n": 3}},
        "either": [None, "x", 7, {"n": 1}][i % 4], "tree": {"name": "a", "under": [{"name": "b", "under": []}]},
        "decimal": decimal.Decimal("-123456789012345678901234.05"), "decimal_fixed": decimal.Decimal("-0.007"),
        "uuid": uuid.UUID(int=i), "date": d.date(1969, 12, 31), "time_millis": d.time(1, 2, 3, 4000), "time_micros": d.time(23, 59, 59, 999999),
        "timestamp_millis": utc, "timestamp_micros": utc.replace(year=4), "timestamp_nanos": 1_709_209_801_005_000_007,
        "local_millis": at, "local_micros": at,
    }


for codec in ["null", "deflate", "snappy", "zstandard", "bzip2"]:
    with open(f"{codec}.avro", "wb") as f:
        fastavro.writer(f, SCHEMA, map(row, range(25)), codec=codec, sync_interval=2000, sync_marker=bytes(range(16)))
