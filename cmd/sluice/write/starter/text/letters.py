"""Writes letters as JSON Lines with the flaws of real data: some are there twice, some have hardly any text, one is broken."""

import json
import os
import pathlib
import random
import sys

WORDS = """the lamp in our kitchen has not worked since monday and nobody could tell us when it will be replaced we have paid for two of
them in spring please write to me when you know more or call in the evening my neighbour has bought the same one and is content with it
perhaps the cable was damaged on its way to us the parcel looked old and was open at one side thank you for your help so far""".split()


def letter(number):
    text = " ".join(random.choice(WORDS) for _ in range(random.randint(12, 60)))
    if number % 20 == 0:
        text += f" you find me at customer{number}@example.com"
    return text.capitalize() + "."


def main(count):
    random.seed(7)
    with open(pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "letters.jsonl"), "w") as f:
        for number in range(count):
            text = letter(number)
            print(json.dumps({"id": number, "text": text}), file=f)
            if number % 10 == 0:
                print(json.dumps({"id": count + number, "text": text.replace(" lamp ", " light ")}), file=f)
            if number % 25 == 0:
                print(json.dumps({"id": 2 * count + number, "text": "Thank you!"}), file=f)
        print("{", file=f)


if __name__ == "__main__":
    main(int(sys.argv[1]))
