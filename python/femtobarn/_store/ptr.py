"""References to products, which can be stored.

A stored reference is a described class, ``fb::Ptr``: the numbers of its container, label, type and index (see
docs/specs/event-products.md). So references can be columns, and C++ can follow references that Python has stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn._shared.optional import optional
from femtobarn._shared.type_names import normal_name
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn import _core
    from femtobarn._store.containers import Container
    from femtobarn._store.datastore import DataStore

__all__ = [
    "MISSING",
    "PTR",
    "Ptr",
    "is_same",
    "load_refs",
    "note_ptr",
    "path_of",
    "ptr_column",
    "text_column",
]

PTR = "fb::Ptr"
_MEMBERS = [
    ("dataset", "std::array<std::uint8_t,16>"),
    ("run", "std::uint64_t"),
    ("subrun", "std::uint64_t"),
    ("event", "std::uint64_t"),
    ("index", "std::uint64_t"),
    ("label", "std::string"),
    ("type", "std::string"),
]
_ABSENT = 2**64 - 1
_NOTHING = bytes(16) + b"\xff" * 24  # the root, which has no products
MISSING: Any = object()  # no default was given
_MOST_DATASETS = 1000  # datasets that are searched to find a name for a message


class Ptr:
    """A reference to a product or to one of its elements, which can be stored.

    `Event.ref` and similar methods create references. A loaded reference refers into the store that it was loaded from:
    stored references do not name a store. ``Ptr()`` is a null reference, and false.

    Attributes
    ----------
    label : str
        The label of the product.
    type : str
        The name of its type.
    index : int or None
        Index of the element; None for the whole product.

    Examples
    --------
    >>> import femtobarn as fb
    >>> subrun = fb.DataStore.connect("memory:").root.create_dataset("a").create_run(1).create_subrun(2)
    >>> event = subrun.create_event(3)
    >>> event.store("pt", [40.5, 38.25, 7.0])
    >>> event.store("z", [event.ref("pt", index=n) for n in (0, 1)])
    >>> event.products("z")
    [Product(label='z', type='std::vector<fb::Ptr>')]
    >>> muons = event.load("z", list[fb.Ptr])
    >>> muons[1]
    <Ptr to 'pt'[1] (std::vector<double>) of run 1, subrun 2, event 3>
    >>> muons[1].load()
    38.25
    """

    __slots__ = ("_index", "_key", "_label", "_store", "_type")

    _store: DataStore | None
    _key: bytes

    def __init__(
        self, container: Container | None = None, label: str = "", typename: str = "", index: int | None = None
    ) -> None:
        if index is not None and not 0 <= index < _ABSENT:
            raise UsageError(f"the index of an element must be 0 or more, not {index}")
        self._store = None if container is None else container._store
        self._key = _NOTHING if container is None else container._key
        self._label, self._index = label, index
        self._type = normal_name(typename) if typename else typename

    @classmethod
    def from_record(cls, store: DataStore, record: Any) -> Ptr:
        """Return a reference from an entry of a column of references.

        Parameters
        ----------
        store : DataStore
            The store of the column.
        record : record or mapping
            Its members, as in a column: dataset (16 bytes), run, subrun, event, index, label, type. The highest 64-bit
            number means that a number is missing.

        Returns
        -------
        Ptr
            The reference.
        """
        from femtobarn._store.containers import Container

        plain = record if isinstance(record, Mapping) else record.tolist()
        try:
            numbers = [int(plain[name]).to_bytes(8, "big") for name in ("run", "subrun", "event")]
            key = bytes(plain["dataset"]) + b"".join(numbers)
            label, type_name, index = str(plain["label"]), str(plain["type"]), int(plain["index"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"invalid {PTR}: {error!r}; it has {', '.join(plain)}") from error
        if len(key) != len(_NOTHING):
            raise UsageError(f"invalid {PTR}: its dataset has {len(key) - 24} bytes, not 16")
        container = None if key == _NOTHING else Container._of(store, key)
        return cls(container, label, type_name, None if index == _ABSENT else index)

    @property
    def label(self) -> str:
        """The label of the product."""
        return self._label

    @property
    def type(self) -> str:
        """The name of its type."""
        return self._type

    @property
    def index(self) -> int | None:
        """Index of the element; None for the whole product."""
        return self._index

    @property
    def container(self) -> Container:
        """The dataset, run, subrun or event of the product; the name of a dataset is unknown."""
        from femtobarn._store.containers import Container

        if self._store is None:
            raise KeyNotFoundError("this is a null reference")
        return Container._of(self._store, self._key)

    def load(self, form: Any = None, *, default: Any = MISSING, unpickle: bool = False) -> Any:
        """Load the product or element.

        Parameters
        ----------
        form : optional
            As in `Event.load`; for an element, the form of the element.
        default : object, optional
            Value to return if the target does not exist, or for a null reference.
        unpickle : bool
            Whether to unpickle a pickled product. Unpickling can run any code.

        Returns
        -------
        object
            The value.

        Raises
        ------
        KeyNotFoundError
            If the target does not exist; the message says which part is missing.
        FormatError
            If the stored value is damaged.
        """
        from femtobarn._store.products import element, loaded

        store = self._store
        stored = None if store is None else store._core.load(self._key, (self._label, self._type))
        if store is None or stored is None:
            if default is not MISSING:
                return default
            raise self._dangling()
        if self._index is None:
            return loaded(store, self._label, self._type, stored, form, unpickle=unpickle)
        try:
            return element(store, self._label, self._type, stored, form, self._index)
        except IndexError as error:
            if default is not MISSING:
                return default
            raise KeyNotFoundError(f"{store.url}: {self} dangles: {error}") from None

    def _dangling(self) -> KeyNotFoundError:
        """Return the error that says which part is missing."""
        if self._store is None:
            return KeyNotFoundError("this is a null reference")
        path = path_of(self._store, self._key[:16], _MOST_DATASETS)
        if path is None:
            why = (
                f"no dataset with the UUID {self._key[:16].hex()} was found: it was deleted, or the reference belongs "
                "to another store"
            )
        elif not self.container.exists():
            why = f"dataset {path!r} has no such {type(self.container).__name__.lower()}"
        else:
            why = f"it has no such product; it is in dataset {path!r}"
        return KeyNotFoundError(f"{self._store.url}: {self} dangles: {why}")

    def __bool__(self) -> bool:
        return self._store is not None

    def _identity(self) -> tuple[Any, ...]:
        return (
            None if self._store is None else self._store.url,
            self._key,
            self._label,
            self._type,
            self._index,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ptr) or self._identity() != other._identity():
            return False
        return self._store is None or other._store is None or is_same(self._store, other._store)

    def __hash__(self) -> int:
        return hash(self._identity())

    def __copy__(self) -> Ptr:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ptr:
        return self  # copying its store would open another connection

    def _target(self) -> str:
        if self._store is None:
            return "nothing"
        at = "" if self._index is None else f"[{self._index}]"
        return f"{self._label!r}{at} ({self._type}) of {self.container}"

    def __str__(self) -> str:
        return f"the reference to {self._target()}"

    def __repr__(self) -> str:
        return f"<Ptr to {self._target()}>"


def path_of(store: DataStore, uuid: bytes, most: int | None = None) -> str | None:
    """Find the name of a dataset by its UUID.

    Parameters
    ----------
    store : DataStore
        Where.
    uuid : bytes
        The UUID of the dataset.
    most : int, optional
        Maximum number of datasets to search.

    Returns
    -------
    str or None
        The name.
    """
    waiting, n_seen = [""], 0
    while waiting and (most is None or n_seen < most):
        for path, key in store._core.datasets(waiting.pop(0)):
            if key[:16] == uuid:
                return path
            waiting.append(path)
            n_seen += 1
    return None


def note_ptr(codec: _core.Codec) -> str:
    """Store the description of references in a store.

    Parameters
    ----------
    codec : Codec
        That of the store.

    Returns
    -------
    str
        The name of their type.
    """
    codec.note_class(PTR, _MEMBERS)
    return PTR


def ptr_column(store: DataStore, ptrs: Sequence[Any]) -> Any:
    """Return references as a column.

    Parameters
    ----------
    store : DataStore
        The store that gets them.
    ptrs : sequence of Ptr
        The references.

    Returns
    -------
    ak.Array
        Records.

    Raises
    ------
    UsageError
        If an item is not a reference, or refers into another store, which stored references cannot name.
    """
    ak = optional("awkward", "all")
    for ptr in ptrs:
        if not isinstance(ptr, Ptr):
            raise UsageError(f"{ptr!r} is not a Ptr")
        if ptr._store is not None and not is_same(ptr._store, store):
            raise UsageError(
                f"{ptr} refers into {ptr._store.url}, and cannot be stored in {store.url}: stored references do not "
                "name a store"
            )
    keys = np.frombuffer(b"".join(ptr._key for ptr in ptrs), np.uint8).reshape(-1, 40)
    numbers = np.ascontiguousarray(keys[:, 16:]).view(">u8").astype(np.uint64)
    index = np.array([_ABSENT if ptr._index is None else ptr._index for ptr in ptrs], np.uint64)
    layouts = ak.contents
    dataset = layouts.RegularArray(layouts.NumpyArray(np.ascontiguousarray(keys[:, :16]).reshape(-1)), 16, len(ptrs))
    columns = [layouts.NumpyArray(np.ascontiguousarray(column)) for column in (*numbers.T, index)]
    texts = [text_column([ptr._label for ptr in ptrs]), text_column([ptr._type for ptr in ptrs])]
    names = [name for name, _ in _MEMBERS]
    return ak.Array(layouts.RecordArray([dataset, *columns, *texts], names, parameters={"__record__": PTR}))


def text_column(texts: Sequence[str]) -> Any:
    """Return strings as a layout of Awkward, which has the type of strings even if it is empty.

    Parameters
    ----------
    texts : sequence of str
        The strings.

    Returns
    -------
    ak.contents.ListOffsetArray
        The layout.
    """
    ak = optional("awkward", "all")
    encoded = [text.encode() for text in texts]
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    characters = np.frombuffer(b"".join(encoded), np.uint8)
    inner = ak.contents.NumpyArray(characters, parameters={"__array__": "char"})
    return ak.contents.ListOffsetArray(ak.index.Index64(offsets), inner, parameters={"__array__": "string"})


def is_same(a: DataStore, b: DataStore) -> bool:
    """Return whether two objects are the same store.

    Parameters
    ----------
    a, b : DataStore
        The objects.

    Returns
    -------
    bool
        True if they are. Two stores in memory without a name differ, though their URLs are equal.
    """
    return a is b or a._core.is_same(b._core) or (a.url == b.url and a.url != "memory:")


def load_refs(store: DataStore, refs: Any, default: Any) -> Any:
    """Load the targets of many references; see `DataStore.load_refs`.

    Parameters
    ----------
    store : DataStore
        The store that they refer into.
    refs : array or sequence of Ptr
        The references.
    default : object
        Replacement for missing targets.

    Returns
    -------
    ak.Array
        The values.
    """
    ak = optional("awkward", "all")
    if isinstance(refs, Sequence):
        refs = ptr_column(store, refs)
    layout = ak.to_packed(ak.Array(refs)).layout
    return ak.Array(_loaded(ak, layout, lambda records: _values(ak, store, ak.Array(records), default).layout))


def _loaded(ak: Any, layout: Any, values: Callable[[Any], Any]) -> Any:
    """Return a packed layout with references replaced by their values."""
    if layout.is_record:
        missing = [name for name, _ in _MEMBERS if name not in layout.fields]
        if missing:
            raise UsageError(f"not references: records of {', '.join(layout.fields)} are not a {PTR}")
        return values(layout)
    if layout.is_option:
        option = layout.to_IndexedOptionArray64()
        return ak.contents.IndexedOptionArray.simplified(option.index, _loaded(ak, option.content, values))
    if (layout.is_list or layout.is_regular) and layout.parameter("__array__") is None:
        return layout.copy(content=_loaded(ak, layout.content, values))
    if len(layout) == 0:
        return layout
    raise UsageError(f"expected references, found {ak.Array(layout).type}")


def _values(ak: Any, store: DataStore, refs: Any, default: Any) -> Any:
    """Return the values of a flat column of references."""
    names: dict[tuple[str, str], list[int]] = {}
    for at, name in enumerate(zip(refs["label"].tolist(), refs["type"].tolist(), strict=True)):
        names.setdefault(name, []).append(at)
    keys = np.empty((len(refs), 40), np.uint8)
    keys[:, :16] = ak.to_numpy(refs["dataset"])
    numbers = np.stack([ak.to_numpy(refs[name]) for name in ("run", "subrun", "event")], axis=-1)
    keys[:, 16:] = np.ascontiguousarray(numbers.astype(">u8")).view(np.uint8).reshape(-1, 24)
    index = ak.to_numpy(refs["index"]).astype(np.uint64)
    parts: dict[str, list[tuple[Any, npt.NDArray[np.int64]]]] = {}
    for name, places in names.items():
        for some in _whole_or_element(np.array(places, np.int64), index):
            values, is_there = _of_one_name(ak, store, name, keys[some], index[some])
            if default is MISSING and not is_there.all():
                raise _first_of(store, refs, some[~is_there])
            if any(name):  # a null reference has no type
                parts.setdefault(str(values.type.content), []).append((values, some))
    where = np.full(len(refs), -1, np.int64)
    order = [some for group in parts.values() for _, some in group]
    if not order:
        return ak.Array([default if default is not MISSING else None] * len(refs))
    where[np.concatenate(order)] = np.arange(sum(map(len, order)))
    values = _picked(ak, _joined(ak, [[values for values, _ in group] for group in parts.values()]), where)
    return values if default in (MISSING, None) else ak.fill_none(values, default, axis=0)


def _joined(ak: Any, groups: list[list[Any]]) -> Any:
    """Return concatenated arrays; each group has one type."""
    arrays = [group[0] if len(group) == 1 else ak.concatenate(group) for group in groups]
    if len(arrays) == 1:
        return arrays[0]
    tags = np.repeat(np.arange(len(arrays), dtype=np.int8), [len(array) for array in arrays])
    places = np.concatenate([np.arange(len(array)) for array in arrays])
    contents = [array.layout for array in arrays]
    return ak.Array(ak.contents.UnionArray.simplified(ak.index.Index8(tags), ak.index.Index64(places), contents))


def _whole_or_element(places: npt.NDArray[np.int64], index: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.int64]]:
    """Separate references to whole products from references to elements: their values differ in type."""
    is_whole = index[places] == _ABSENT
    return (some for some in (places[is_whole], places[~is_whole]) if len(some))


def _of_one_name(
    ak: Any, store: DataStore, name: tuple[str, str], keys: npt.NDArray[np.uint8], index: npt.NDArray[np.uint64]
) -> tuple[Any, npt.NDArray[np.bool_]]:
    """Return the values of references to products of one name, with missing values, and a mask of existing ones."""
    n = len(keys)
    rows = np.ascontiguousarray(keys).view("V40").reshape(-1)
    is_set = (keys != np.frombuffer(_NOTHING, np.uint8)).any(axis=1)
    if not is_set.any():
        return ak.Array([None] * n), is_set
    # each product is loaded once for all references to it; sorting groups them by target
    unique, at = np.unique(rows[is_set], return_inverse=True)
    events = store._core.load_events(unique.tobytes(), [name])
    from femtobarn._files.awkward_arrays import to_array

    products = to_array(events.arrays(False), named=True)[name[0]]
    is_there = is_set.copy()
    is_there[is_set] = ~ak.to_numpy(ak.is_none(products))[at]
    places = np.full(n, -1, np.int64)
    places[is_set] = at.reshape(-1)
    if index[0] == _ABSENT:
        return _picked(ak, products, np.where(is_there, places, -1)), is_there
    if products.ndim < 2:
        raise UsageError(f"{store.url}: product {name[0]!r} is a {name[1]}, which has no elements to refer to")
    counts = ak.to_numpy(ak.fill_none(ak.num(products), 0)).astype(np.uint64)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    is_there &= index < counts[np.maximum(places, 0)]
    elements = ak.flatten(products, axis=1)
    chosen = np.where(is_there, offsets[np.maximum(places, 0)] + np.where(is_there, index, 0).astype(np.int64), -1)
    return _picked(ak, elements, chosen), is_there


def _picked(ak: Any, values: Any, places: npt.NDArray[np.int64]) -> Any:
    """Return values in another order, missing where the index is -1."""
    if (places >= 0).all():
        return values[places]
    layout = ak.contents.IndexedOptionArray.simplified(ak.index.Index64(places), values.layout)
    return ak.Array(layout)


def _first_of(store: DataStore, refs: Any, dangling: npt.NDArray[np.int64]) -> KeyNotFoundError:
    """Return the error of the first reference without a target."""
    ptr = Ptr.from_record(store, refs[int(dangling[0])])
    try:
        ptr.load()
    except KeyNotFoundError as error:
        return KeyNotFoundError(f"{error} ({len(dangling)} of {len(refs)} references dangle)")
    return KeyNotFoundError(f"{store.url}: {ptr} was deleted meanwhile")
