"""Datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from femtobarn._shared.compat import known_options
from femtobarn._store.arguments import checked_number
from femtobarn._store.containers import Event, Holder, Run
from femtobarn._store.event_columns import arrays_of, delete_event_products, one_argument, typed
from femtobarn._store.product_types import checked_text
from femtobarn._store.ptr import MISSING
from femtobarn._store.twins import paged, reads
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core import DataSet as Named
    from femtobarn._store.datastore import DataStore
    from femtobarn._store.write_batch import WriteBatch

__all__ = ["DataSet"]


class DataSet(Holder[Run]):
    """A dataset: holds datasets by name, runs by number, and products."""

    _child = Run
    _core: Named

    def __init__(self, store: DataStore, core: Named) -> None:
        super().__init__(store, core)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_path, (self._store, self.path, self._core.key)

    @property
    def path(self) -> str:
        """Its full name."""
        return self._core.path

    @property
    def name(self) -> str:
        """The last part of its full name."""
        return self.path.rpartition("/")[2]

    @property
    def uuid(self) -> str:
        """The UUID in the keys of its containers and products, in hexadecimal digits."""
        return self._core.uuid.hex()

    def create_dataset(self, name: str) -> DataSet:
        """Create a dataset in this one, including the datasets between; existing ones are kept.

        Parameters
        ----------
        name : str
            The name; "a/b" is b in a.

        Returns
        -------
        DataSet
            The dataset.

        Raises
        ------
        ExistsError
            If one of them is being deleted, or its deletion was interrupted: finish it with `delete_dataset`.
        KeyNotFoundError
            If this dataset was deleted, even if a new dataset has its name.
        """
        self._check_name(name)
        return DataSet(self._store, self._core.create_dataset(name))

    def delete_dataset(self, name: str) -> None:
        """Delete a dataset in this one, with all its datasets, runs and products.

        It becomes invisible at once. An interrupted deletion is finished by calling this again.

        Parameters
        ----------
        name : str
            The name; "a/b" is b in a.

        Raises
        ------
        KeyNotFoundError
            If it does not exist, and nothing of it remains.
        """
        self._check_name(name)
        self._core.delete_dataset(name)

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"the name of a dataset must be a string, not {name!r}")
        if not name.strip("/"):
            raise UsageError(f"invalid dataset name {name!r}: it is empty")
        checked_text(name, "dataset's name")

    def create_run(self, number: int, *, batch: WriteBatch | None = None) -> Run:
        """Create a run; an existing one is returned.

        Parameters
        ----------
        number : int
            Its number, from 0 to 2**64 - 2.
        batch : WriteBatch, optional
            Batch that collects the write; by default it is written at once.

        Returns
        -------
        Run
            The run.
        """
        return self._create(number, batch)

    @overload
    def __getitem__(self, key: str) -> DataSet: ...
    @overload
    def __getitem__(self, key: int) -> Run: ...
    @overload
    def __getitem__(self, key: slice) -> Iterator[Run]: ...
    def __getitem__(self, key: str | int | slice) -> DataSet | Run | Iterator[Run]:
        if isinstance(key, str):
            return DataSet(self._store, self._core.dataset(checked_text(key, "dataset's name")))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return self._core.has_dataset(checked_text(key, "dataset's name"))
        if isinstance(key, DataSet):
            is_child = (
                self._store._core.is_same(key._store._core)
                and key.path != ""
                and key.path.rpartition("/")[0] == self.path
            )
            return is_child and key.exists()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[DataSet]:
        return self.datasets()

    @reads
    @known_options()
    def load(
        self,
        label: str | tuple[str, Any],
        form: Any = None,
        *,
        event: tuple[int, int, int] | None = None,
        typename: Any = None,
        default: Any = MISSING,
        unpickle: bool = False,
    ) -> Any:
        """Load a product of the dataset, or of one of its events.

        ``dataset.load(label, event=(1, 2, 3))`` is the same as ``dataset[1][2][3].load(label)``. With a typename it
        sends one request to a server instead of four; without a typename, both send two more to find the type.

        Parameters
        ----------
        label : str or tuple
            The label, or label and type.
        form : optional
            As in `Container.load`.
        event : tuple of three int, optional
            Run, subrun and event of the product; by default, a product of the dataset itself is loaded.
        typename : str or type, optional
            As in `Container.load`.
        default : object, optional
            Value to return if the dataset or event exists, but has no such product.
        unpickle : bool
            Whether to unpickle a pickled product. Unpickling can run any code.

        Returns
        -------
        object
            The value.

        Raises
        ------
        KeyNotFoundError
            If the run, subrun or event does not exist; or if the product does not exist and no default is given.
        FormatError
            If the stored value is damaged.

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> dataset.create_run(1).create_subrun(2).create_event(3).store("pt", 1.5)
        >>> dataset.load("pt", event=(1, 2, 3), typename=float)
        1.5
        """
        if event is None:
            return super().load(label, form, typename=typename, default=default, unpickle=unpickle)
        try:
            run, subrun, number = event
        except (TypeError, ValueError):
            raise UsageError(f"invalid event={event!r}: expected a tuple (run, subrun, event)") from None
        run, subrun, number = checked_number(run), checked_number(subrun), checked_number(number)
        of_event, nothing = Event(self._store, self._core.child(run).child(subrun).child(number)), object()
        value = of_event.load(label, form, typename=typename, default=nothing, unpickle=unpickle)
        if value is nothing:
            self[run][subrun][number]  # an error if it does not exist
            return of_event.load(label, form, typename=typename, default=default, unpickle=unpickle)
        return value

    @paged
    def datasets(self) -> Iterator[Iterable[DataSet]]:
        """Iterate over its datasets, sorted by name.

        Yields
        ------
        DataSet
            The items, one by one.
        """
        yield [DataSet(self._store, core) for core in self._core.datasets()]

    @paged
    def runs(self) -> Iterator[Iterable[Run]]:
        """Iterate over its runs, sorted by number.

        Returns
        -------
        iterator of Run
            The items, one by one.
        """
        return self._pages()

    @reads
    @known_options()
    @one_argument
    def arrays(
        self,
        products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]],
        *,
        runs: int | slice | Iterable[int] | None = None,
        typename: Any = None,
        numbers: bool = False,
        library: str = "ak",
    ) -> Any:
        """Load products of all its events as arrays.

        Parameters
        ----------
        products : str, tuple or list
            A label, or a label and a type; or several of these.
        runs : int, iterable of int, slice or range, optional
            Only events of these runs, sorted by number. All given runs must exist; in a slice or range, missing runs
            are skipped.
        typename : str or type, optional
            The type, for a single label.
        numbers : bool
            Whether to add the fields ``run``, ``subrun`` and ``event``.
        library : str
            "ak", "np", "arrow", "pd" or "pl".

        Returns
        -------
        array
            For one product its values, for several products records with a field per label.

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> dataset.create_run(43).create_subrun(1).create_event(2).store("n", 5)
        >>> dataset.arrays("n", runs=43, numbers=True).tolist()
        [{'run': 43, 'subrun': 1, 'event': 2, 'n': 5}]
        """
        parts = [self] if runs is None else self._runs(runs)
        return arrays_of(self, parts, typed(products, typename), numbers, library)

    @known_options()
    def delete_products(
        self, label: str | tuple[str, Any], *, typename: Any = None, runs: int | slice | Iterable[int] | None = None
    ) -> int:
        """Delete a product of all its events, but not of events of nested datasets.

        Products of the dataset itself, and of its runs and subruns, are kept. If the deletion was interrupted, some
        products remain: delete them again.

        Parameters
        ----------
        label : str or tuple
            The label of the product, or label and type.
        typename : str or type, optional
            The type; by default products of all types are deleted.
        runs : int, iterable of int, slice or range, optional
            Only of events of these runs; in a slice or range, missing runs are skipped.

        Returns
        -------
        int
            Number of deleted products.

        Raises
        ------
        KeyNotFoundError
            If no event has the product (with this type, if given).

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> for number in range(3):
        ...     dataset.create_run(43).create_subrun(1).create_event(number).store("mass", 91.2)
        >>> dataset.delete_products("mass", runs=43)
        3
        """
        parts = [self] if runs is None else self._runs(runs)
        return delete_event_products(self, parts, label, typename)

    def _runs(self, runs: int | str | slice | Iterable[int]) -> list[Run]:
        """Return the runs with these numbers, in ascending order."""
        if isinstance(runs, str):
            raise UsageError(f"runs must be numbers, e.g. 301, [301, 305] or slice(300, 310), not the string {runs!r}")
        if isinstance(runs, slice):
            return list(self[runs])
        if isinstance(runs, range):
            ends = sorted((runs[0], runs[-1])) if runs else (0, -1)
            return [run for run in self[ends[0] : ends[1] + 1] if run.number in runs]
        numbers = runs if isinstance(runs, Iterable) else [runs]
        return [self[number] for number in sorted({checked_number(number) for number in numbers})]

    def exists(self) -> bool:
        """Return whether the dataset exists in the store: a deleted one does not, even if a new dataset has its name.

        Returns
        -------
        bool
            True if it exists.
        """
        return self._core.exists()

    def _check_there(self) -> None:
        self._core.check_dataset()

    def __repr__(self) -> str:
        return f"<DataSet {self}>"

    def delete(self) -> None:
        """Delete the dataset with all its datasets, runs and products; the root is emptied.

        It becomes invisible at once, with its contents. After an interrupted deletion, some data remain, and nothing
        can be created with its name until the deletion is repeated with this method or `delete_dataset`.
        """
        self._core.remove()

    def __str__(self) -> str:
        return f"dataset {self.path!r}"


def _of_path(store: DataStore, path: str, key: bytes) -> DataSet:
    return DataSet(store, store._core.dataset(path, key))
