"""Makes tables, and compares what a cleaning has made of them with what DuckDB makes. It reads commands as lines of JSON, and answers each with a line.

    {"make": PATH, "seed": N}               writes a Parquet file with a column of each type
    {"query": SQL, "in": PATH, "out": GLOB} compares the query over the table `t` with the rows of the files
    {"write": "pyarrow", "path": PATH}      has pyarrow, polars or fastavro write a file with the types that it has
    {"equal": [PATH, PATH]}                 compares the rows and, of two Parquet files, the types of two files
"""

import datetime
import decimal
import json
import math
import random
import re
import sys

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

UTC = datetime.timezone.utc


def make(path, seed):
    r = random.Random(seed)
    n = r.randrange(50, 400)

    def column(of, typ, nulls=0.1):
        return pa.array([None if r.random() < nulls else of() for _ in range(n)], typ)

    def moment():
        return datetime.datetime(2020, 1, 1) + datetime.timedelta(microseconds=r.randrange(0, 10**14))

    digits = r.choice([(7, 2), (12, 3), (30, 10)])
    unit = r.choice(["ms", "us", "ns"])
    table = pa.table({
        "id": pa.array(range(n), pa.int64()),
        "g": pa.array([r.randrange(6) for _ in range(n)], r.choice([pa.int8(), pa.int32(), pa.uint16()])),
        "u": column(lambda: r.choice([r.randrange(10), 2**63 + r.randrange(1000), r.randrange(2**64)]), pa.uint64()),
        "x": column(lambda: r.choice([r.uniform(-10, 10), float(r.randrange(5)), math.nan if r.random() < 0.2 else 0.5]), pa.float64()),
        "d": column(lambda: decimal.Decimal(r.randrange(-99999, 99999)).scaleb(-digits[1]), pa.decimal128(*digits)),
        "ts": column(lambda: moment().replace(microsecond=r.choice([0, 1000, 500000])), pa.timestamp(unit, "UTC")),
        "lt": column(lambda: moment().replace(microsecond=0), pa.timestamp(unit)),
        "day": column(lambda: moment().date(), pa.date32()),
        "s": column(lambda: r.choice(["", "a", "B", "é", "zz", "10", "9"]), pa.string()),
        "ok": column(lambda: r.random() < 0.5, pa.bool_()),
        "raw": column(lambda: r.randbytes(r.randrange(4)), pa.binary()),
    })
    pq.write_table(table, path, row_group_size=r.choice([10, 100, 1000]))


def plain(v):
    """A value as what is compared: numbers by value, doubles up to the order in which they were added."""
    if isinstance(v, bool) or v is None:
        return repr(v)
    if isinstance(v, float):
        return "%.9g" % v if v != int(v if math.isfinite(v) else 0.5) else str(int(v))
    if isinstance(v, (int, decimal.Decimal)):
        d = decimal.Decimal(v)
        return str(int(d)) if d == d.to_integral_value() else str(d.normalize())
    if isinstance(v, datetime.datetime):
        return (v.astimezone(UTC).replace(tzinfo=None) if v.tzinfo else v).isoformat()
    if isinstance(v, datetime.date):
        return datetime.datetime(v.year, v.month, v.day).isoformat()
    if isinstance(v, datetime.time):
        return repr(v.isoformat())
    return repr(v)


def compare(query, path, out):
    con = duckdb.connect()
    con.execute("set timezone='UTC'")
    con.execute(f"create view t as from read_parquet('{path}')")
    want = con.execute(query)
    names = sorted(c[0] for c in want.description)
    rows = sorted(tuple(plain(v) for _, v in sorted(zip((c[0] for c in want.description), row))) for row in want.fetchall())
    if not rows:
        return "" if not con.execute(f"select count(*) from read_parquet('{out}')").fetchone()[0] else "DuckDB has no rows"
    got = con.execute(f"select {', '.join(names)} from read_parquet('{out}')")
    mine = sorted(tuple(plain(v) for v in row) for row in got.fetchall())
    if mine == rows:
        return ""
    only = [r for r in mine if r not in rows][:3], [r for r in rows if r not in mine][:3]
    return f"{len(mine)} rows, and {len(rows)} of DuckDB's; {names}; only here {only[0]}; only there {only[1]}"


MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 1, 5006)
DAY = datetime.date(1969, 12, 31)


def write(who, path):
    d = decimal.Decimal
    if who == "fastavro":
        logical = {
            "day": ("int", "date"), "ms": ("long", "timestamp-millis"), "us": ("long", "timestamp-micros"), "local": ("long", "local-timestamp-micros"),
            "time": ("long", "time-micros"), "id": ("string", "uuid"),
        }
        fields = [{"name": n, "type": ["null", {"type": t, "logicalType": of}]} for n, (t, of) in logical.items()]
        fields.append({"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}]})
        fields.append({"name": "prices", "type": {"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}}})
        rows = [dict.fromkeys(logical) | {"price": None, "prices": []}, {
            "day": DAY, "ms": MOMENT.replace(tzinfo=UTC), "us": MOMENT.replace(tzinfo=UTC), "local": MOMENT, "time": MOMENT.time(),
            "id": "00000000-0000-0000-0000-00000000000a", "price": d("-12.050"), "prices": [d("0.5"), d("-1000.0")],
        }]
        with open(path, "wb") as f:
            fastavro.writer(f, {"type": "record", "name": "r", "fields": fields}, rows, codec="deflate")
        return
    if who == "polars":
        pl.DataFrame({
            "price": [d("-12.05"), d("100.00"), None], "at": [MOMENT, MOMENT, None], "zone": [MOMENT, None, MOMENT], "ms": [MOMENT, MOMENT, None],
            "day": [DAY, None, DAY], "time": [MOMENT.time(), None, MOMENT.time()], "u": [2**64 - 1, 0, None], "small": [255, 0, None], "x": [math.nan, -math.inf, None],
            "raw": [b"\x00\xff", b"", None], "kind": ["a", "b", None], "list": [[d("1.5")], [], None], "in": [{"day": DAY, "n": 1}, {"day": None, "n": None}, None],
        }, schema={
            "price": pl.Decimal(12, 2), "at": pl.Datetime("us"), "zone": pl.Datetime("ns", "UTC"), "ms": pl.Datetime("ms"), "day": pl.Date, "time": pl.Time,
            "u": pl.UInt64, "small": pl.UInt8, "x": pl.Float64, "raw": pl.Binary, "kind": pl.Categorical, "list": pl.List(pl.Decimal(5, 1)),
            "in": pl.Struct({"day": pl.Date, "n": pl.Int16}),
        }).write_parquet(path)
        return
    pq.write_table(pa.table({
        "price": pa.array([d("-12.05"), d("100.00"), None], pa.decimal128(12, 2)), "wide": pa.array([d(10) ** 50, d(-1), None], pa.decimal256(60, 0)),
        "s": pa.array([MOMENT.replace(microsecond=0), None, None], pa.timestamp("s")), "ms": pa.array([MOMENT.replace(microsecond=5000), None, None], pa.timestamp("ms", "Europe/Berlin")),
        "us": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")), "ns": pa.array([1709209801005006000, None, -1000], pa.timestamp("ns")),
        "day": pa.array([DAY, None, None], pa.date32()), "day64": pa.array([DAY, None, None], pa.date64()), "time": pa.array([MOMENT.time(), None, None], pa.time64("us")),
        "u": pa.array([2**64 - 1, 0, None], pa.uint64()), "x": pa.array([math.nan, math.inf, None], pa.float32()), "half": pa.array([0.5, None, -0.25], pa.float16()),
        "raw": pa.array([b"\x00\xff", b"", None], pa.binary()), "fixed": pa.array([b"abc", None, b"xyz"], pa.binary(3)), "large": pa.array(["a", "", None], pa.large_string()),
        "list": pa.array([[DAY, None], [], None], pa.list_(pa.date32())), "map": pa.array([[("a", d("1.5"))], [], None], pa.map_(pa.string(), pa.decimal128(4, 1))),
        "in": pa.array([{"at": MOMENT, "n": 1}, {"at": None, "n": None}, None], pa.struct({"at": pa.timestamp("us"), "n": pa.int8()})),
    }), path)


def read(path):
    if path.endswith(".avro"):
        with open(path, "rb") as f:
            rows = list(fastavro.reader(f))
        for row in rows:
            for name in {"ns", "zone"} & row.keys():  # it does not know timestamps in nanoseconds
                if row[name] is not None:
                    row[name] = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=row[name] // 1000)
        return rows, None
    table = pq.read_table(path)
    return table.to_pylist(), {f.name: stored(str(f.type)) for f in table.schema}


def stored(typ):
    """The type without what pyarrow and polars keep beside the file's own types."""
    typ = re.sub(r"dictionary<values=(\w+),[^>]*>", r"\1", typ).replace("large_", "").replace("halffloat", "float")
    return re.sub(r"tz=[^\]]*", "tz=UTC", typ)


def deep(v):
    if isinstance(v, list) and v and all(isinstance(i, tuple) for i in v):
        return deep(dict(v))  # a map
    if isinstance(v, list):
        return [deep(i) for i in v]
    if isinstance(v, dict):
        return {k: deep(i) for k, i in sorted(v.items())} or []  # an empty map is an empty list there
    return plain(v)


def equal(before, after):
    (a, types), (b, others) = read(before), read(after)
    a, b = (sorted(json.dumps(deep(r)) for r in rows) for rows in (a, b))
    if a != b:
        return f"{a}, and written {b}"
    changed = {n: (t, others[n]) for n, t in types.items() if others[n] != t} if types and others else {}
    return f"types: {changed}" if changed else ""


for line in sys.stdin:
    command = json.loads(line)
    if "make" in command:
        answer = make(command["make"], command["seed"])
    elif "write" in command:
        answer = write(command["write"], command["path"])
    elif "equal" in command:
        answer = equal(*command["equal"])
    else:
        answer = compare(command["query"], command["in"], command["out"])
    print(json.dumps(answer or ""), flush=True)
