"""Events whose columns are made when they are accessed, as they are in `_files.virtual_arrays`.

A schema of coffea has about 1900 buffers. Making an array of each takes longer than reading those that are used. So
the fields of the events are made when they are accessed, and so are the members of a collection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import awkward as ak
from awkward.contents import RecordArray
from awkward.forms import ListOffsetForm, RecordForm

from femtobarn._files.virtual_arrays import lazy_record

__all__ = ["Buffers", "Forms"]

_FEW = 4  # members that are made together


@dataclass(frozen=True)
class Buffers:
    """Where buffers come from.

    Attributes
    ----------
    container : mapping
        Buffers, or functions that return them, by key.
    key : callable
        A function of the key of a form and the name of an attribute that returns the key of a buffer.
    caching : bool or callable
        Whether an array keeps its buffers, as `ak.from_buffers` takes it.
    """

    container: Mapping[str, Any]
    key: Callable[..., str]
    caching: Any = True

    def array(self, form: Any, length: int) -> Any:
        """Return the layout of a form."""
        options = {"buffer_key": self.key, "enable_virtualarray_caching": self.caching, "highlevel": False}
        return ak.from_buffers(form, length, self.container, **options)


@dataclass
class Forms:
    """The form of events as a schema describes it. What was parsed is kept for further events.

    Attributes
    ----------
    form : dict
        A form of a record, as coffea's schemas have it.
    """

    form: dict[str, Any]
    _parsed: dict[int, Any] = field(default_factory=dict)

    def array(self, length: int, buffers: Buffers, parameters: dict[str, Any]) -> Any:
        """Return the layout of events, whose fields are made when they are accessed.

        Parameters
        ----------
        length : int
            Number of events.
        buffers : Buffers
            Where their buffers come from.
        parameters : dict
            The parameters of the events.

        Returns
        -------
        ak.contents.RecordArray
            The layout.
        """
        layout = RecordArray([], [], length=length, parameters=parameters)
        contents = list(self.form["contents"])

        def make(at: int) -> Any:
            if at not in self._parsed:
                self._parsed[at] = ak.forms.from_dict(contents[at])
            return _array(self._parsed[at], length, buffers)

        return lazy_record(layout, list(self.form["fields"]), make)


def _array(form: Any, length: int, buffers: Buffers) -> Any:
    """Return the layout of a field; the members of a collection are made when they are accessed."""
    if isinstance(form, RecordForm) and _is_large(form):
        whole = buffers.array(_without_members(form), length)
        return lazy_record(whole, form.fields, lambda at: _array(form.contents[at], length, buffers))
    if not (isinstance(form, ListOffsetForm) and isinstance(form.content, RecordForm) and _is_large(form.content)):
        return buffers.array(form, length)
    record = form.content
    whole = buffers.array(_list_of(form, _without_members(record)), length)
    # all members have the same offsets, which are read once
    key = buffers.key(form_key=form.form_key, attribute="offsets", form=form)
    shared = Buffers(_Sharing(buffers.container, key, whole.offsets.data), buffers.key, buffers.caching)

    def member(at: int) -> Any:
        return shared.array(_list_of(form, record.contents[at]), length).content

    lazy_record(whole.content, record.fields, member)
    whole.content.__class__ = _Unmeasured
    return whole


class _Unmeasured(RecordArray):  # type: ignore[misc]
    """A record array whose length is not known yet. RecordArray would make all members to compare their lengths."""

    @property
    def length(self) -> Any:
        """The number of records: the last of the offsets, which are read now."""
        self.__class__ = RecordArray
        measure, self._length_generator = self._length_generator, None  # type: ignore[has-type]
        if measure is not None:
            self._length = measure()
        return self._length


def _is_large(form: Any) -> bool:
    return not form.is_tuple and len(form.contents) > _FEW


def _without_members(form: Any) -> Any:
    return RecordForm([], [], parameters=form.parameters, form_key=form.form_key)


def _list_of(form: Any, content: Any) -> Any:
    return ListOffsetForm(form.offsets, content, parameters=form.parameters, form_key=form.form_key)


class _Sharing(Mapping[str, Any]):
    """Buffers, and one array that replaces its buffer."""

    def __init__(self, container: Mapping[str, Any], key: str, made: Any) -> None:
        self._container = container
        self._key = key
        self._made = made

    def __getitem__(self, key: str) -> Any:
        return self._made if key == self._key else self._container[key]

    def __len__(self) -> int:
        return len(self._container)

    def __iter__(self) -> Any:
        return iter(self._container)
