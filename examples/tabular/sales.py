"""Writes the sales of flats as a CSV file, the same every time. A few rows are not as they should be."""

import csv
import os
import pathlib
import random

chance = random.Random(7)
folder = pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "sales")
folder.mkdir(parents=True)
with open(folder / "sales.csv", "w", newline="") as file:
    out = csv.writer(file)
    out.writerow(["id", "area", "rooms", "age", "distance", "price"])
    for i in range(4000):
        area, age, distance = chance.uniform(30, 150), chance.uniform(0, 80), chance.uniform(0, 20)
        rooms = max(1, round(area / 30 + chance.gauss(0, 0.5)))
        price = 150 + 3.2 * area + 12 * rooms - 0.9 * age - 6 * distance + chance.gauss(0, 12)  # thousands
        out.writerow([i, round(area, 1), rooms, round(age), round(distance, 1), round(price, 1)])
    out.writerow([4000, "unknown", 3, 20, 5, 400])
