"""References to products, which can be stored.

A stored reference is a described class, ``fb::Ptr``: the numbers of its container, label, type and index (see
docs/specs/event-products.md). So references can be columns, and C++ can follow references that Python has stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from femtobarn._store.container import Container
    from femtobarn._store.datastore import DataStore

__all__ = ["ABSENT", "MEMBERS", "MISSING", "NOTHING", "PTR", "Ptr", "named_dataset", "note_ptr"]

PTR = "fb::Ptr"
MEMBERS = [
    ("dataset", "std::array<std::uint8_t,16>"),
    ("run", "std::uint64_t"),
    ("subrun", "std::uint64_t"),
    ("event", "std::uint64_t"),
    ("index", "std::uint64_t"),
    ("label", "std::string"),
    ("type", "std::string"),
]
ABSENT = 2**64 - 1
NOTHING = bytes(16) + b"\xff" * 24  # the root, which has no products
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

    __slots__ = ("_core", "_index", "_label", "_store", "_type")

    _store: DataStore | None
    _core: _core.Container | None

    def __init__(
        self, container: Container | None = None, label: str = "", typename: str = "", index: int | None = None
    ) -> None:
        if index is not None and not 0 <= index < ABSENT:
            raise UsageError(f"the index of an element must be 0 or more, not {index}")
        self._store = None if container is None else container._store
        self._core = None if container is None else container._core
        self._label, self._index = label, index
        self._type = _core.type_name(typename) if typename else typename

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
        from femtobarn._store.containers import container_of

        plain = record if isinstance(record, Mapping) else record.tolist()
        try:
            numbers = [int(plain[name]).to_bytes(8, "big") for name in ("run", "subrun", "event")]
            key = bytes(plain["dataset"]) + b"".join(numbers)
            label, type_name, index = str(plain["label"]), str(plain["type"]), int(plain["index"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"invalid {PTR}: {error!r}; it has {', '.join(plain)}") from error
        if len(key) != len(NOTHING):
            raise UsageError(f"invalid {PTR}: its dataset has {len(key) - 24} bytes, not 16")
        container = None if key == NOTHING else container_of(store, store._core.container(key))
        return cls(container, label, type_name, None if index == ABSENT else index)

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
        from femtobarn._store.containers import container_of

        if self._store is None or self._core is None:
            raise KeyNotFoundError("this is a null reference")
        return container_of(self._store, self._core)

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
        from femtobarn._store.product_decoding import element, loaded

        store = self._store
        stored = None if self._core is None else self._core.load((self._label, self._type))
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
        if self._store is None or self._core is None:
            return KeyNotFoundError("this is a null reference")
        dataset = named_dataset(self._store, self._core, _MOST_DATASETS)
        if dataset is None:
            why = (
                f"no dataset with the UUID {self._core.uuid.hex()} was found: it was deleted, or the reference belongs "
                "to another store"
            )
        elif not self.container.exists():
            why = f"dataset {dataset.path!r} has no such {type(self.container).__name__.lower()}"
        else:
            why = f"it has no such product; it is in dataset {dataset.path!r}"
        return KeyNotFoundError(f"{self._store.url}: {self} dangles: {why}")

    def __bool__(self) -> bool:
        return self._store is not None

    def _identity(self) -> tuple[Any, ...]:
        return self._core, self._label, self._type, self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ptr) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self) -> tuple[Any, ...]:
        return Ptr, (self.container if self else None, self._label, self._type, self._index)

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


def named_dataset(store: DataStore, core: _core.Container, most: int | None = None) -> _core.DataSet | None:
    """Find the dataset of a container, of which only the UUID is known.

    Parameters
    ----------
    store : DataStore
        Where.
    core : Container
        The container.
    most : int, optional
        Maximum number of datasets to search.

    Returns
    -------
    DataSet or None
        The dataset, with its name.
    """
    waiting, n_seen = [store._core.root], 0
    while waiting and (most is None or n_seen < most):
        for dataset in waiting.pop(0).datasets():
            if dataset.uuid == core.uuid:
                return dataset
            waiting.append(dataset)
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
    codec.note_class(PTR, MEMBERS)
    return PTR
