"""Writes by pyarrow 26.0.1, with encodings and compressions that its defaults do not use: python3 encodings.py
- booleans-v*.parquet: booleans in runs and packed (RLE), in pages of versions 1 and 2
- lz4-v*.parquet: pages of LZ4_RAW that do not shrink much, in pages of versions 1 and 2
"""
import pyarrow as pa
import pyarrow.parquet as pq

b = [i // 37 % 2 == 0 if i < 300 else i * 7 % 5 < 2 for i in range(501)]
booleans = pa.table({
    "i": range(len(b)), "b": b, "ones": [True] * len(b), "opt": [None if i % 11 == 0 else v for i, v in enumerate(b)],
    "list": [[v, None, not v][:i % 4] for i, v in enumerate(b)], "struct": [{"x": v} for v in b],
})
rle = {name: "RLE" for name in ("b", "ones", "opt", "list.list.element", "struct.x")} | {"i": "DELTA_BINARY_PACKED"}
numbers = pa.table({"i": range(150), "text": [f"{i * 2654435761 % 2**32:08x}" for i in range(150)], "float": [i / 7 for i in range(150)]})
for version in 1, 2:
    options = {"data_page_version": f"{version}.0", "store_schema": False, "write_statistics": False}
    pq.write_table(booleans, f"booleans-v{version}.parquet", compression="zstd", use_dictionary=False, column_encoding=rle, **options)
    pq.write_table(numbers, f"lz4-v{version}.parquet", compression="lz4", use_dictionary=["text"], **options)
