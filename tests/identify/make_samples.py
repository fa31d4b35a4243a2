#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the samples that are not written by hand: binary formats, and texts longer than one 4 KiB block.

Usage: make_samples.py [DIRECTORY]   (default: samples/ beside this script, where the results are committed)
Every byte follows from this script; compressed files may differ between versions of zlib, so the committed files,
not this script, are what golden.json describes.
"""

import bz2
import gzip
import io
import json
import lzma
import math
import random
import struct
import sys
import tarfile
import wave
import zipfile
import zlib
from pathlib import Path

LOG = "".join(f"2024-03-{1 + i // 24:02d}T{i % 24:02d}:00:00Z station 17 level {150 + 80 * math.sin(i / 2):.1f}\n"
              for i in range(120)).encode()  # fmt: skip
EPOCH = (2024, 3, 1, 0, 0, 0)


def png() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + bytes(v for x in range(32) for v in (x * 8, y * 8, (x * y) & 255)) for y in range(32))
    header = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def gif() -> bytes:
    """8 x 8 pixels of two colours, not compressed: clear codes come often enough that every code stays 8 bits wide."""
    codes, pixels = [], [(x + y) % 2 for y in range(8) for x in range(8)]
    for start in range(0, 64, 6):
        codes += [128, *pixels[start : start + 6]]
    data = bytes([*codes, 129])
    palette = b"".join(bytes((i, 255 - i, 128)) for i in range(128))
    image = b",\0\0\0\0\x08\0\x08\0\0" + bytes([7, len(data)]) + data + b"\0"
    return b"GIF89a\x08\0\x08\0\xf6\0\0" + palette + image + b";"


def bmp() -> bytes:
    pixels = bytes((x * y * c) & 255 for y in range(24) for x in range(24) for c in (1, 3, 7))
    info = struct.pack("<IiiHHIIiiII", 40, 24, 24, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + info + pixels


def zip_archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in (("log/tides.log", LOG), ("notes.txt", b"measured at the harbour\n")):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), body, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def tar_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, body in (("log/tides.log", LOG[:900]), ("notes.txt", b"measured at the harbour\n")):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(body), 1709251200
            archive.addfile(entry, io.BytesIO(body))
    return buffer.getvalue()


def wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(i * 0.35))) for i in range(2400)))
    return buffer.getvalue()


def pdf() -> bytes:
    text = b"BT /F1 24 Tf 72 720 Td (Tides this week) Tj 0 -36 Td (High water 04:12) Tj ET"
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, offsets = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(out)
    return out + b"xref\n0 6\n" + table + trailer


def elf() -> bytes:
    """A static x86-64 program that exits with status 7."""
    code = bytes.fromhex("b83c000000 bf07000000 0f05")
    base, start = 0x400000, 64 + 56
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + start, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    size = start + len(code)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000) + code + bytes(256)


def wasm() -> bytes:
    """One exported function that adds two integers."""
    sections = [(1, "0160027f7f017f"), (3, "0100"), (7, "0103616464" + "0000"), (10, "010700200020016a0b")]
    return b"\0asm\1\0\0\0" + b"".join(
        bytes([kind, len(body) // 2]) + bytes.fromhex(body) for kind, body in sections
    )  # fmt: skip


def readings_csv() -> bytes:
    rows = [f"{i},2024-03-{1 + i // 10:02d},{'Harbour' if i % 2 else 'Lighthouse'},{150 + (i * 37) % 91},{i % 3 == 0}"
            for i in range(280)]  # fmt: skip
    return ("id,day,station,level_cm,checked\n" + "\n".join(rows) + "\n").encode()


def events_json() -> bytes:
    events = [{"id": i, "kind": ["open", "close", "alarm"][i % 3], "at": 1709251200 + 617 * i,
               "gate": {"name": f"gate {i % 5}", "level": i * 0.5}} for i in range(90)]  # fmt: skip
    return (json.dumps({"version": 2, "events": events}, indent=2) + "\n").encode()


def stations_csv() -> bytes:
    return b"name,latitude,longitude,active\nHarbour,53.55,9.99,yes\nLighthouse,54.01,8.12,no\nIsland,54.18,7.89,yes\n"


def samples() -> dict[str, bytes]:
    noise = random.Random(20240301).randbytes
    return {
        "sample.png": png(),
        "chequer.gif": gif(),
        "tile.bmp": bmp(),
        "sample.zip": zip_archive(),
        "log.gz": gzip.compress(LOG, 9, mtime=0),
        "log.bz2": bz2.compress(LOG),
        "log.xz": lzma.compress(LOG),
        "archive.tar": tar_archive(),
        "tone.wav": wav(),
        "sample.pdf": pdf(),
        "exit.elf": elf(),
        "add.wasm": wasm(),
        "readings.csv": readings_csv(),
        "stations.csv": stations_csv(),
        "events.json": events_json(),
        "noise.bin": noise(6000),
        "tiny.bin": b"\xff\xfe\x80\x81",
    }


def main() -> int:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "samples"
    directory.mkdir(parents=True, exist_ok=True)
    for name, body in samples().items():
        (directory / name).write_bytes(body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
