"""Makes rntuple/nested_deferred.root, with the feature flag "nested deferred columns" of format 1.0.2.1, and
rntuple/unknown_flag.root, the same with the flag that is reserved for tests, 137, which every reader has to refuse.

    make_feature_flags.py [OUTDIR]

No released ROOT writes the flag yet. ROOT 6.40 writes the data, with several column representations below collections;
this script then moves the secondary representations from the header to the footer's schema extension, as if they had
been added when the third cluster was written: deferred, suppressed before, and below collections. It drops their column
ranges from the older clusters, sets the flag in the footer, and writes the three envelopes anew. ROOT 6.40 rightly
refuses the results, so the golden file holds what it read before the columns were moved.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path

from make_rntuples import CXX, HERE, Maker, dump

import xxhash  # after the path was extended

FIRST_NEW_CLUSTER = 2
NESTED_DEFERRED = [1 << 0]
RESERVED_FOR_TESTS = [1 << 63, 1 << 63, 1 << (137 - 128)]  # the top bit of a word: another word follows
DESCRIPTION = b"nested deferred columns"

WRITER = r"""
namespace fb {
inline void WriteNestedBase(const std::string &path)
{
   using T = ENTupleColumnType;
   Recipe r;
   r.model->SetDescription(std::string(4000, '.')); // room for the new envelopes
   r.Add<std::int32_t>("number");
   auto floats = Field<std::vector<float>>("floats");
   floats->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kReal32}, {T::kReal16}});
   r.AddField<std::vector<float>>(std::move(floats));
   auto nested = Field<std::vector<std::vector<double>>>("nested");
   nested->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kIndex64}, {T::kSplitIndex32}});
   nested->GetMutableSubfields()[0]->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kReal64}, {T::kReal32}});
   r.AddField<std::vector<std::vector<double>>>(std::move(nested));
   auto texts = Field<std::vector<std::string>>("texts");
   texts->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kIndex64, T::kChar}, {T::kIndex32, T::kChar}});
   r.AddField<std::vector<std::string>>(std::move(texts));
   auto pairs = Field<std::vector<std::array<float, 2>>>("pairs");
   pairs->GetMutableSubfields()[0]->GetMutableSubfields()[0]->SetColumnRepresentatives({{T::kSplitReal32}, {T::kReal16}});
   r.AddField<std::vector<std::array<float, 2>>>(std::move(pairs));
   const std::vector<std::string> switching{"floats._0", "nested._0", "nested._0._0", "texts._0", "pairs._0._0"};
   auto file = MakeFile(path);
   auto writer = RNTupleWriter::Append(std::move(r.model), "nested_deferred", *file, Options(0));
   auto entry = writer->CreateEntry();
   Rng rng(130);
   for (int cluster = 0; cluster < 5; ++cluster) {
      for (std::size_t i = 0; i < switching.size(); ++i)
         SetRepresentation(*writer, switching[i], cluster == 2 || (cluster == 3 && i % 2));
      for (int k = 0; k < 4; ++k) {
         r.Fill(*entry, rng);
         writer->Fill(*entry);
      }
      writer->CommitCluster();
   }
}
} // namespace fb
"""


class Cursor:
    """Reads little-endian values and frames."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, form: str):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def string(self) -> bytes:
        size = self.take("I")
        self.at += size
        return self.data[self.at - size : self.at]

    def frame(self) -> bytes:
        """A whole frame, its size included."""
        size = abs(struct.unpack_from("<q", self.data, self.at)[0])
        self.at += size
        return self.data[self.at - size : self.at]


def items(frame: bytes) -> list[bytes]:
    """The frames in a list frame."""
    cursor = Cursor(frame, 12)
    return [cursor.frame() for _ in range(struct.unpack_from("<I", frame, 8)[0])]


def list_frame(frames: list[bytes], tail: bytes = b"") -> bytes:
    body = b"".join(frames) + tail
    return struct.pack("<qI", -(len(body) + 12), len(frames)) + body


def record_frame(body: bytes) -> bytes:
    return struct.pack("<q", len(body) + 8) + body


def string(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


def envelope(kind: int, payload: bytes) -> bytes:
    data = struct.pack("<Q", kind | (len(payload) + 16) << 16) + payload
    return data + struct.pack("<Q", xxhash.xxh3_64_intdigest(data))


class File:
    """An uncompressed RNTuple in a small file: the anchor and the three envelopes."""

    def __init__(self, path: Path) -> None:
        self.data = bytearray(path.read_bytes())
        self.anchor = self.data.index(b"\x40\x00\x00\x42\x00\x02") + 6
        (self.header_at, _, self.header_size, self.footer_at, _, self.footer_size) = struct.unpack_from(
            ">6Q", self.data, self.anchor + 8
        )

    def read(self, at: int, size: int) -> bytes:
        return bytes(self.data[at : at + size])

    def write_anchor(self, header: tuple[int, int], footer: tuple[int, int]) -> None:
        struct.pack_into(">6Q", self.data, self.anchor + 8, *header, header[1], *footer, footer[1])
        digest = xxhash.xxh3_64_intdigest(bytes(self.data[self.anchor : self.anchor + 64]))
        struct.pack_into(">Q", self.data, self.anchor + 64, digest)


def split_columns(frames: list[bytes]) -> tuple[list[int], list[int]]:
    """The old ids of the columns that stay in the header, and of those that move to the extension."""
    stay, move = [], []
    for number, frame in enumerate(frames):
        representation = struct.unpack_from("<H", frame, 8 + 10)[0]
        (move if representation else stay).append(number)
    return stay, move


def deferred(frame: bytes, first_element: int) -> bytes:
    """The column's record with the deferred flag and a negative first element index."""
    flags = struct.unpack_from("<H", frame, 8 + 8)[0]
    body = bytearray(frame[8:])
    struct.pack_into("<H", body, 8, flags | 1)
    body[12:12] = struct.pack("<q", -first_element)
    return record_frame(bytes(body))


def edit_pages(pages: bytes, order: list[int], n_old: int, checksum: bytes) -> tuple[bytes, list[int]]:
    """The page list with columns in the new order; also the elements before the first new cluster, per old column."""
    cursor = Cursor(pages, 16)
    summaries = cursor.frame()
    clusters = []
    first = [0] * len(order)
    for number, cluster in enumerate(items(cursor.frame())):
        columns = items(cluster)
        if number == FIRST_NEW_CLUSTER:
            first = [element_offset(column) for column in columns]
        keep = order if number >= FIRST_NEW_CLUSTER else order[:n_old]
        clusters.append(list_frame([columns[i] for i in keep]))
    return envelope(3, checksum + summaries + list_frame(clusters)), first


def element_offset(column: bytes) -> int:
    """Behind the column's pages; the lowest number there is where the column is suppressed."""
    cursor = Cursor(column, 12)
    for _ in range(struct.unpack_from("<I", column, 8)[0]):
        cursor.take("i")
        cursor.take("i")
        cursor.take("Q")
    return cursor.take("q")


def convert(path: Path, flags: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Rewrites the file; returns the old ids of the columns that stayed and that moved, and where all begin."""
    file = File(path)
    header = Cursor(file.read(file.header_at, file.header_size), 8)
    header.take("Q")
    name, _, writer = header.string(), header.string(), header.string()
    fields, columns, aliases, extra = (header.frame() for _ in range(4))
    frames = items(columns)
    stay, move = split_columns(frames)
    front = struct.pack("<Q", 0) + string(name) + string(DESCRIPTION) + string(writer)
    new_header = envelope(1, front + fields + list_frame([frames[i] for i in stay]) + aliases + extra)
    checksum = new_header[-8:]

    footer = Cursor(file.read(file.footer_at, file.footer_size), 8)
    footer.take("Q")
    footer.take("Q")
    footer.frame()  # the schema extension: empty
    (group,) = items(footer.frame())
    attributes = footer.data[footer.at : -8]
    group_cursor = Cursor(group, 8)
    span = group_cursor.data[8 : 8 + 20]  # first entry, entry span, number of clusters
    group_cursor.at = 8 + 20
    group_cursor.take("Q")  # the page list's length
    size, at = group_cursor.take("i"), group_cursor.take("Q")
    new_pages, first = edit_pages(file.read(at, size), stay + move, len(stay), checksum)

    pages_at = file.header_at + len(new_header)
    footer_at = pages_at + len(new_pages)
    moved = [deferred(frames[i], first[i]) for i in move]
    extension = record_frame(list_frame([]) + list_frame(moved) + list_frame([]) + list_frame([]))
    locator = struct.pack("<QiQ", len(new_pages), len(new_pages), pages_at)
    new_footer = envelope(
        2,
        struct.pack(f"<{len(flags)}Q", *flags)
        + checksum
        + extension
        + list_frame([record_frame(span + locator)])
        + attributes,
    )
    new = new_header + new_pages + new_footer
    if len(new) > file.header_size:
        raise RuntimeError("the old header leaves too little room")
    file.data[file.header_at : file.header_at + file.header_size] = new.ljust(file.header_size, b"\0")
    file.write_anchor((file.header_at, len(new_header)), (footer_at, len(new_footer)))
    path.write_bytes(file.data)
    return stay, move, first


def renumber(golden: dict, stay: list[int], move: list[int], first: list[int]) -> None:
    """The golden of the file as ROOT wrote it, made one of the file as it is now."""
    new = {old: number for number, old in enumerate(stay + move)}
    for field in golden["schema"]:
        for column in field["columns"]:
            old = column["id"]
            column["id"] = column["physical"] = new[old]
            if old in move:
                column.update(first_element=first[old], suppressed_deferred=True)
    for cluster in golden["clusters"]:
        for column in cluster["columns"]:
            column["column"] = new[column["column"]]
        cluster["columns"].sort(key=lambda column: column["column"])


def main() -> int:
    outdir = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "rntuple"
    maker = Maker(outdir)
    maker.build_types()
    maker.declare("evolution.hxx")
    maker.root.gInterpreter.Declare(f'#include "{CXX / "evolution.hxx"}"\n{WRITER}')
    target = maker.outdir / "nested_deferred.root"
    maker.root.fb.WriteNestedBase(str(target))
    golden = json.loads(dump(target, "nested_deferred"))
    golden["source"] = "ROOT reading the same data with these columns in the header"
    golden["description"] = DESCRIPTION.decode()
    other = maker.outdir / "unknown_flag.root"
    other.write_bytes(target.read_bytes())
    convert(other, RESERVED_FOR_TESTS)
    renumber(golden, *convert(target, NESTED_DEFERRED))
    lines = json.dumps(golden, ensure_ascii=False, separators=(",", ":"))
    (maker.outdir / "nested_deferred.root.nested_deferred.json").write_text(lines + "\n")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
