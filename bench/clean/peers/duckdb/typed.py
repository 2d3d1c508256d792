"""Makes a Parquet table with types, and cleans it as the task `typed` does: typed.py make DIR MIB, or typed.py IN OUT."""

import os
import sys

import duckdb

ROW = 130  # bytes, about


def make(folder, mib):
    os.makedirs(folder)
    rows = mib * 2**20 // ROW
    duckdb.execute(f"""
        copy (
            select i as id, (hash(i, 1) % 50000)::int as customer,
                cast(((hash(i, 2) % 2000000)::bigint - 1000000) as decimal(12, 0)) * 0.01::decimal(3, 2) as price,
                timestamptz '2020-01-01 00:00:00+00' + to_microseconds((hash(i, 3) % 100000000000000)::bigint) as "at",
                date '2020-01-01' + (hash(i, 4) % 1000)::int as day, md5(i::varchar) || md5((i + 1)::varchar) as note
            from range({rows}) t(i)
        ) to '{folder}/t.parquet' (format parquet, row_group_size 100000)""")


def clean(source, out):
    os.makedirs(out)
    duckdb.execute(f"""
        copy (
            select day, count(*) as n, sum(price) as total, max("at") as latest from (
                select day, customer, arg_min(price, "at") as price, min("at") as "at" from read_parquet('{source}/*.parquet')
                where price > 9.99 and "at" >= timestamptz '2021-01-01 00:00:00+00' group by customer, day
            ) group by day
        ) to '{out}/rows.jsonl' (format json)""")


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]))
else:
    clean(*sys.argv[1:])
