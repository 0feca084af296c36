"""Event stores with asyncio: same results as without, the event loop is never blocked, and cancelling loses no data."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import inspect
import pickle
import random
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import servers

import femtobarn as fb
from femtobarn import aio

PATIENCE = 60.0


@dataclasses.dataclass
class Track:
    """A track."""

    pt: float
    n: int


@pytest.fixture(scope="module")
def server(need_program: Any) -> Iterator[Any]:
    """A real Redis."""
    need_program("redis-server")
    started: Any = servers.KINDS["redis"]()
    yield started
    started.close()


@pytest.fixture
def redis_url(server: Any, tmp_path: Path) -> str:
    return f"redis://127.0.0.1:{server.about()['port']}/?prefix={tmp_path.name}:&timeout=30"


@pytest.fixture(params=["memory", "dir", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store."""
    if request.param == "redis":
        return str(request.getfixturevalue("redis_url"))
    return "memory:" if request.param == "memory" else f"dir:{tmp_path / 'store'}"


class _Nobody(concurrent.futures.ThreadPoolExecutor):
    """The default threads of an event loop, which the store must not use."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a thread of the loop's own was taken")


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine in a loop whose default threads are forbidden, with a time limit."""

    async def bounded() -> Any:
        asyncio.get_running_loop().set_default_executor(_Nobody())
        async with asyncio.timeout(PATIENCE):
            return await main()

    return asyncio.run(bounded())


async def event_of(store: aio.DataStore, number: int = 25) -> aio.Event:
    dataset = await store.root.create_dataset("fermilab/nova")
    subrun = await (await dataset.create_run(43)).create_subrun(56)
    return await subrun.create_event(number)


async def fill(store: aio.DataStore, n: int) -> aio.DataSet:
    dataset = await store.root.create_dataset("filled")
    async with store.write_batch() as batch:
        await batch.store_arrays(dataset, {"n": np.arange(n)}, run=1, subrun=np.arange(n) // 100, event=np.arange(n))
    return dataset


async def until(is_so: Callable[[], bool]) -> None:
    """Wait in the loop until a condition holds."""
    while not is_so():
        await asyncio.sleep(0.005)


def test_all_that_a_store_does_is_awaited(url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(url)
        event = await event_of(store)
        await event.store("tracks", [Track(1.5, 2), Track(2.5, 3)])
        assert await event.load("tracks", list[Track]) == [Track(1.5, 2), Track(2.5, 3)]
        assert await event.products() == [fb.Product("tracks", "std::vector<Track>")]
        assert await event.load("nothing", default=5) == 5
        with pytest.raises(KeyError, match="has no product 'nothing'; it has 'tracks'"):
            await event.load("nothing")
        with pytest.raises(FileExistsError):
            await event.store("tracks", [Track(1, 1)], overwrite=False)
        dataset = await store["fermilab"]["nova"]
        assert (dataset.path, dataset.name) == ("fermilab/nova", "nova")
        assert dataset == await store["fermilab/nova"]
        assert await dataset[43][56][25] == event
        assert await (await dataset[43])[56] == event.subrun
        assert event.run == await store["fermilab/nova"][43]
        assert (event.number, event.subrun.number, event.run.number) == (25, 56, 43)
        with pytest.raises(KeyError, match="there is no run 44"):
            await dataset[44]
        with pytest.raises(KeyError, match="there is no run 44"):
            await dataset[44][1][1]
        with pytest.raises(fb.UsageError):
            await dataset[43][1:2]  # type: ignore[call-overload]
        assert await dataset.contains(43)
        assert not await dataset.contains(44)
        assert (await store.contains("fermilab/nova"), await store.contains("nova")) == (True, False)
        assert [each.path async for each in store] == ["fermilab"]
        for slip in (lambda: list(dataset), lambda: list(store), lambda: list(dataset[43])):
            with pytest.raises(TypeError, match="with async for"):
                slip()
        for slip in (lambda: 43 in dataset, lambda: "fermilab" in store, lambda: 56 in dataset[43]):
            with pytest.raises(TypeError, match=r"contains\("):
                slip()
        assert await store["fermilab"]
        assert await (await store["fermilab"]).contains("nova")
        assert await event.exists()
        for number in range(10):
            await dataset.create_run(number)
        assert [each.number async for each in dataset.runs()] == [*range(10), 43]
        assert [each.number async for each in dataset[3:6]] == [3, 4, 5]
        assert await dataset.numbers(8) == [8, 9, 43]
        assert [each async for each in event.run] == [event.subrun]
        assert [each async for each in event.subrun] == [event]
        assert [each async for each in dataset.events()] == [event]
        assert [each.path async for each in store.root] == ["fermilab"]
        await event.store("n", 1)
        assert await dataset.delete_products("n", runs=43) == 1
        await event.store("n", 1)
        assert await event.run.delete_products("n") == 1
        await event.delete_product("tracks")
        assert await event.products() == []
        await event.delete()
        assert not await event.exists()
        assert store.url == store.sync.url
        await store.flush()

    run(main)


def test_batches_write_at_their_end(url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(url)
        dataset = await store.root.create_dataset("a")
        for number, begin in enumerate((store.write_batch, store.async_write_batch)):
            async with begin(max_items=7) as batch:
                subrun = await (await dataset.create_run(number, batch=batch)).create_subrun(0, batch=batch)
                for n in range(20):
                    event = await subrun.create_event(n, batch=batch)
                    await event.store("n", n, batch=batch)
                if number == 0:
                    assert 0 <= await batch.size() <= 7
            assert (await dataset.arrays("n", runs=number)).tolist() == list(range(20))
        async with store.write_batch(overwrite=False) as batch:
            await (await dataset[0][0][3]).store("n", 5, batch=batch)
        assert batch.kept == [(await dataset[0][0][3], fb.Product("n", "std::int64_t"))]
        assert await (await dataset[0][0][3]).load("n") == 3
        with pytest.raises(fb.UsageError):
            await batch.flush()

    run(main)


def test_prefetched_events_need_no_thread(url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(url)
        dataset = await fill(store, 1000)
        prefetcher = store.prefetcher(["n"], batch_size=64)
        assert [await event.load("n") async for event in prefetcher(dataset)] == list(range(1000))
        sizes = [len(batch) async for batch in prefetcher.batches(dataset)]
        assert sizes == [64] * 15 + [40]
        async for batch in prefetcher.batches(dataset):
            assert (await batch.arrays()).n.tolist() == list(range(64))
            assert await batch[-1].load("n") == 63
            assert [await event.load("n") for event in batch] == list(range(64))
            event = batch[5]
            # Data in memory are decoded at once; other data are requested.
            coroutine = event.load("n")
            with pytest.raises(StopIteration) as done:
                coroutine.send(None)
            assert done.value.value == 5
            assert await event.load("m", default=None) is None
            break

    run(main)


def test_the_loop_goes_on_while_the_store_does_not_answer(server: Any, redis_url: str) -> None:
    """The server is stopped, and only the loop continues it; a timer helps a loop that waits for it."""
    helped: list[bool] = []

    def help_out() -> None:
        helped.append(True)
        server.continue_server(0)

    timer = threading.Timer(20, help_out)

    async def main() -> None:
        store = await aio.DataStore.connect(redis_url)
        dataset = await fill(store, 100)
        event = await event_of(store)
        await event.store("tracks", [Track(1, 2)])
        await store.create_queue("q", int)
        queue = await store.open_queue("q", int, mode="producer")
        await queue.push(5)
        batch = store.write_batch()
        dropped = store.write_batch()
        await event.store("dropped", 5, batch=dropped)
        other = await (await store["filled"][1][0][0]).ref("n")
        nova = await store.root.create_dataset("fermilab/nova")  # `process` writes what batches hold when it ends

        async def first(iterator: Any) -> Any:
            return await anext(aiter(iterator))

        def all_calls() -> list[Awaitable[Any]]:
            fresh = store.prefetcher(["n"])
            return [
                event.load("tracks"),
                event.store("more", [Track(3, 4)]),
                event.products(),
                event.ref("tracks"),
                event.exists(),
                first(dataset.events()),
                first(dataset.runs()),
                first(store.root),
                first(fresh(dataset)),
                dataset.arrays("n"),
                dataset.contains(1),
                first(dataset[0:5]),
                aio.Ptr(other).load(),
                store.load_refs([other]),
                _awaited(store["fermilab/nova"][43][56][25]),
                queue.pop(),
                queue.size(),
                store.flush(),
                batch.store_arrays(nova, {"k": [1.5]}, run=7, subrun=7, event=7),
                batch.size(),
                _closed(store.write_batch(), event),
                aio.process(dataset, _number, preload=["n"], progress=False),
                _opened(store),
                aio.DataStore.connect(redis_url),
            ]

        server.stop_server(0)
        timer.start()
        try:
            del dropped
            tasks = [asyncio.ensure_future(call) for call in all_calls()]
            for _ in range(100):  # checks that the loop is running
                await asyncio.sleep(0.005)
            waiting = [task for task in tasks if not task.done()]
        finally:
            timer.cancel()
            server.continue_server(0)
        assert not helped
        # `batch.store_arrays` records no class and only collects; its size is known
        assert len(waiting) >= len(tasks) - 2
        results = await asyncio.gather(*tasks)
        assert results[0].pt.tolist() == [1]
        assert results[9].tolist() == list(range(100))
        assert results[15] == 5
        await batch.close()
        await queue.close()
        while await event.load("dropped", default=None) != 5:  # what nobody has any more is written by a thread
            await asyncio.sleep(0.01)

    run(main)


def test_a_queue_whose_opening_is_cancelled_is_not_open(server: Any, redis_url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(redis_url)
        await store.create_queue("q", int)
        consumer = await store.open_queue("q", int, mode="consumer")
        server.stop_server(0)
        opening = asyncio.ensure_future(_opened(store, forever=True))
        await asyncio.sleep(0.05)
        opening.cancel()
        await asyncio.sleep(0.05)
        server.continue_server(0)
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(10):  # a producer that disappeared is waited for half a minute
            with pytest.raises(EOFError):
                await consumer.pop()

    run(main)


async def _awaited(thing: Awaitable[Any]) -> Any:
    return await thing


async def _closed(batch: aio.WriteBatch, event: aio.Event) -> None:
    async with batch:
        await event.store("last", 1.5, batch=batch)


async def _opened(store: aio.DataStore, *, forever: bool = False) -> None:
    async with store.open_queue("q", int, mode="producer"):
        await asyncio.sleep(PATIENCE if forever else 0)


def _number(event: Any) -> int:
    return int(event.load("n"))


def test_calls_overlap(redis_url: str, server: Any, need_store: Any) -> None:
    """100 calls of 0.2 s each would take 20 s one after another."""
    need_store("toxiproxy-server")
    import toxiproxy

    async def main(port: int) -> None:
        own = str(server.about()["port"])
        store = await aio.DataStore.connect(f"{redis_url.replace(own, str(port), 1)}&connections=64")
        dataset = await store["filled"]
        started = time.monotonic()
        values = await asyncio.gather(*[_load(dataset, n) for n in range(100)])
        assert values == list(range(100))
        assert time.monotonic() - started < 10

    async def _load(dataset: aio.DataSet, n: int) -> int:
        event = fb.Event(dataset.sync._store, dataset.sync._core.child(1).child(n // 100).child(n))
        return int(await aio.Event(event).load("n", typename=int))

    async def first() -> None:
        await fill(await aio.DataStore.connect(redis_url), 100)

    run(first)
    with toxiproxy.Toxiproxy() as ways:
        port = ways.before(int(server.about()["port"]))
        ways.poison(port, "latency", latency=200)
        run(lambda: main(port))


def test_many_who_wait_for_a_queue_keep_nobody_else_waiting(url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(url, threads=2)
        await store.create_queue("q", int)
        producer = await store.open_queue("q", int, mode="producer")
        consumer = await store.open_queue("q", int, mode="consumer")
        waiting = [asyncio.ensure_future(consumer.pop()) for _ in range(50)]
        await asyncio.sleep(0.05)
        for n in range(50):
            await producer.push(n)
        assert sorted(await asyncio.gather(*waiting)) == list(range(50))
        await producer.close()
        with pytest.raises(EOFError, match="queue 'q' is empty"):
            await consumer.pop()
        assert [value async for value in consumer] == []
        assert await consumer.size() == 0
        await store.destroy_queue("q", int)
        with pytest.raises(fb.KeyNotFoundError):
            await consumer.pop()

    run(main)


def test_a_pop_that_is_cancelled_loses_no_value(url: str) -> None:
    """Pops are cancelled at random moments: before, while and after a value is taken for them."""

    async def main() -> None:
        store = await aio.DataStore.connect(url)
        await store.create_queue("q", list[Track])
        producer = await store.open_queue("q", list[Track], mode="producer")
        consumer = await store.open_queue("q", list[Track], mode="consumer")
        seen: list[int] = []
        n_cancelled = 0
        dice = random.Random(5)
        for n in range(200):
            await producer.push([Track(0, n)])
        await producer.close()
        while True:
            task = asyncio.ensure_future(consumer.pop())
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(dice.choice([0, 0.0001, 0.0005]))
            task.cancel()
            try:
                seen.append((await task)[0].n)
            except asyncio.CancelledError:
                n_cancelled += 1
            except EOFError:
                break
            if n_cancelled > 300:
                break
        rest = [value[0].n async for value in consumer]
        assert seen + rest == list(range(200))  # also in their order
        assert n_cancelled > 20

    run(main)


def test_a_value_that_cannot_be_given_back_is_kept(
    server: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(redis_url)
        await store.create_queue("q", int)
        producer = await store.open_queue("q", int, mode="producer")
        consumer = await store.open_queue("q", int, mode="consumer")
        await producer.push(1)
        await producer.push(2)
        server.stop_server(0)
        task = asyncio.ensure_future(consumer.pop())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()  # its outcome is not known yet

        def lost(*_: Any) -> None:
            raise fb.FileError("it is lost")

        with monkeypatch.context() as patch:
            patch.setattr(aio.Queue, "_give_back", lost)
            server.continue_server(0)
            with pytest.raises(fb.FileError):
                await task
        assert await consumer.pop() == 1
        await producer.close()
        assert [value async for value in consumer] == [2]

    run(main)


def test_a_write_that_is_cancelled_is_settled_when_that_is_over(server: Any, redis_url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(redis_url, threads=1)
        event = await event_of(store)
        server.stop_server(0)
        try:
            begun = asyncio.ensure_future(event.store("begun", 1))
            await asyncio.sleep(0.05)
            waits = asyncio.ensure_future(event.store("waits", 2))
            reads = asyncio.ensure_future(event.load("begun"))
            await asyncio.sleep(0.05)
            for task in (begun, waits, reads):
                task.cancel()
            await asyncio.sleep(0.05)
            begun.cancel()  # cancelling changes nothing
            await asyncio.sleep(0.05)
            assert [task.done() for task in (begun, waits, reads)] == [False, True, True]
        finally:
            server.continue_server(0)
        with pytest.raises(asyncio.CancelledError):
            await begun
        assert await event.load("begun") == 1
        assert await event.load("waits", default=None) is None

    run(main)


def test_a_batch_is_written_although_its_end_is_cancelled(server: Any, redis_url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(redis_url, threads=1)
        dataset = await store.root.create_dataset("a")

        async def write() -> None:
            async with store.write_batch() as batch:
                await batch.store_arrays(dataset, {"n": np.arange(50)}, run=1, subrun=1, event=np.arange(50))
                server.stop_server(0)
                blocker = asyncio.ensure_future(store.flush())  # occupies the only thread
                await asyncio.sleep(0.05)
                blocked.append(blocker)

        blocked: list[Any] = []
        task = asyncio.ensure_future(write())
        await until(lambda: bool(blocked))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        server.continue_server(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.gather(*blocked)
        assert (await dataset.arrays("n")).tolist() == list(range(50))

    run(main)


def test_leaving_an_iteration_ends_what_fetches_ahead(url: str) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(url, threads=4)
        dataset = await fill(store, 5000)
        prefetcher = store.prefetcher(["n"], batch_size=10)

        async def some() -> None:
            async for event in dataset.events(batch_size=10):
                if event.number == 25:
                    break
            async for event in prefetcher(dataset):
                if event.number == 25:
                    break
            async with contextlib.aclosing(prefetcher.batches(dataset)) as batches:
                async for _ in batches:
                    break

        await some()

        def n_threads() -> int:
            return len(list(Path("/proc/self/task").iterdir()))

        await asyncio.sleep(0.2)
        before = n_threads()
        for _ in range(30):
            await some()
        await until(lambda: n_threads() <= before + 3)

    run(main)


def test_process_awaits_functions_and_ends_when_it_is_cancelled(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = await aio.DataStore.connect(url)
        dataset = await fill(store, 1000)
        result = await aio.process(dataset, _number, preload=["n"], workers=2, progress=False)
        assert result.value == list(range(1000))
        loop = threading.get_ident()
        at_once, most = 0, 0

        async def awaited(event: Any) -> int:
            nonlocal at_once, most
            assert threading.get_ident() == loop
            assert isinstance(event, aio.Event)
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.0002)
            at_once -= 1
            return int(await event.load("n"))

        options: dict[str, Any] = {"preload": ["n"], "workers": 8, "progress": False}
        result = await aio.process(dataset, awaited, **options)
        assert result.value == list(range(1000))
        assert most > 1

        async def batches(batch: aio.EventBatch) -> int:
            return int((await batch.arrays()).n.to_numpy().sum())

        assert (await aio.process(dataset, batches, by="batch", **options)).n_events == 1000
        with pytest.raises(fb.UsageError, match="use executor='threads'"):
            await aio.process(dataset, awaited, executor="processes", **options)

        async def fails(event: Any) -> int:
            return 1 // (int(await event.load("n")) - 500)

        with pytest.raises(fb.ProcessError, match=r"event 500: ZeroDivisionError"):
            await aio.process(dataset, fails, **options)

        seen: list[int] = []
        goes_on = asyncio.Event()

        async def hangs(event: Any) -> int:
            n = int(await event.load("n"))
            seen.append(n)
            if n >= 300:
                await goes_on.wait()
            return n

        checkpoint = {**options, "checkpoint": tmp_path / "checkpoint", "key": "hangs", "output_batch_size": 10}
        task = asyncio.ensure_future(aio.process(dataset, hangs, **checkpoint))
        await until(lambda: any(n >= 300 for n in seen))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        n_before = len(seen)
        await asyncio.sleep(0.05)
        assert len(seen) == n_before
        with pytest.raises(fb.UsageError, match=r"function: key 'hangs' there, .*_number \(source"):
            await aio.process(dataset, _number, **{**checkpoint, "key": None})
        goes_on.set()
        seen.clear()
        result = await aio.process(dataset, hangs, **checkpoint)
        assert result.value == list(range(1000))
        assert len(seen) < 1000

    run(main)


def test_twins_are_one_store() -> None:
    async def main() -> None:
        store = fb.DataStore.connect("memory:")
        event = await event_of(store.aio)
        await event.store("n", 5)
        assert store["fermilab/nova"][43][56][25].load("n") == 5
        assert event.sync == store["fermilab/nova"][43][56][25]
        assert aio.Event(event.sync) == event
        assert event.datastore == store.aio
        assert len({event, aio.Event(event.sync)}) == 1
        assert repr(event) == "<aio Event run 43, subrun 56, event 25 of dataset 'fermilab/nova'>"
        assert repr(store.aio) == "<aio DataStore 'memory:'>"
        assert event.dataset == await event.datastore.create_dataset("fermilab/nova")
        with pytest.raises(fb.UsageError, match="must be looked up"):
            aio.Event(fb.Event(store, store._core.container(event.sync._core.key))).dataset  # noqa: B018
        dataset = event.datastore.root
        with pytest.raises(TypeError):
            44 in dataset  # type: ignore[operator]  # noqa: B015
        with pytest.raises(TypeError):
            iter(dataset)  # type: ignore[call-overload]
        ref = await event.ref("n")
        assert ref == event.sync.ref("n")
        assert await aio.Ptr(ref).load() == 5
        assert aio.Ptr(ref).container == event
        with pytest.raises(fb.KeyNotFoundError):
            await aio.Ptr(fb.Ptr()).load()
        with pytest.raises(fb.UsageError, match="threads must be 1 or more"):
            await aio.DataStore.connect("memory:", threads=0)

    run(main)


def test_loops_of_several_threads_share_a_store(tmp_path: Path) -> None:
    store = fb.DataStore.connect(f"dir:{tmp_path / 'store'}")
    assert pickle.loads(pickle.dumps(store.aio)).url == store.url

    async def main(number: int) -> None:
        event = await event_of(store.aio, number)
        await asyncio.gather(*[event.store(f"n{n}", n) for n in range(20)])
        assert await asyncio.gather(*[event.load(f"n{n}") for n in range(20)]) == list(range(20))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: run(lambda: main(number)), range(8)))
    assert len(list(store["fermilab/nova"].events())) == 8


_NOT_AWAITED = {"write_batch", "async_write_batch", "prefetcher", "open_queue", "runs", "datasets", "events", "batches"}


@pytest.mark.parametrize(
    "name", ["DataStore", "DataSet", "Run", "SubRun", "Event", "WriteBatch", "Queue", "Prefetcher", "EventBatch", "Ptr"]
)
def test_every_method_has_a_twin_with_its_arguments(name: str) -> None:
    """Whoever adds a method to a class of the event store calls `make update-aio`."""
    sync, twin = getattr(fb, name), getattr(aio, name)
    public = [one for one in dir(sync) if not one.startswith("_")]
    assert [one for one in public if not hasattr(twin, one)] == sorted(
        {"DataStore": ["aio"], "Ptr": _OF_PTR}.get(name, [])
    )
    for one in public:
        method = getattr(sync, one)
        if not inspect.isfunction(method):
            continue
        if one in _NOT_AWAITED or hasattr(twin, one):
            assert list(inspect.signature(method).parameters) == list(inspect.signature(getattr(twin, one)).parameters)
            if one not in _NOT_AWAITED:
                assert inspect.iscoroutinefunction(getattr(twin, one)), one
            assert getattr(twin, one).__doc__, one


_OF_PTR = ["from_record"]  # which makes what a twin is of


def test_every_function_of_stores_has_a_twin() -> None:
    """A new function that waits for a store needs a line in `femtobarn.aio`."""
    takes_store = {"DataSet", "Run", "SubRun", "Event", "DataStore"}
    for name in fb.__all__:
        function = getattr(fb, name)
        if not inspect.isfunction(function):
            continue
        hints = " ".join(map(str, function.__annotations__.values()))
        if name == "hdf5_schema" or any(re.search(rf"\b{one}\b", hints) for one in takes_store):
            twin = getattr(aio, name)
            assert inspect.iscoroutinefunction(twin), name
            assert list(inspect.signature(function).parameters) == list(inspect.signature(twin).parameters)
    assert {"process", "ingest", "export", "hdf5_schema"} <= set(aio.__all__)


def test_stores_are_closed_with_async_with(tmp_path: Path) -> None:
    url = f"dir:{tmp_path / 'store'}"

    async def main() -> None:
        async with aio.DataStore.connect(url) as store:
            event = await event_of(store)
            batch = store.write_batch()
            await event.store("n", 1, batch=batch)
        assert store.closed
        with pytest.raises(fb.UsageError):
            await event.load("n")
        await store.close()
        async with await aio.DataStore.connect(url) as store:
            nova = store["fermilab/nova"]
            with pytest.raises(AttributeError, match="await it first"):
                _ = nova[43][56][25].load
            with pytest.raises(AttributeError, match=r"has no 'nothing'$"):
                _ = nova[43].nothing
            event = await nova[43][56][25]
            assert await event.load("n") == 1
            assert await (await nova[43]).contains(event.subrun)
            ref = aio.Ptr(await event.ref("n"))
            assert (ref.label, ref.type, ref.index) == ("n", "std::int64_t", None)

    run(main)


def test_files_go_in_and_come_out_with_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.DataStore.connect("memory:") as store:
            dataset = await store.root.create_dataset("a")
            async with store.write_batch() as batch:
                await batch.store_arrays(dataset, {"n": [5, 7]}, run=1, subrun=1, event=[1, 2])
                with pytest.raises(fb.UsageError, match="dataset must be a DataSet"):
                    await batch.store_arrays("a", {"n": [5]}, run=1, subrun=1, event=[1])  # type: ignore[arg-type]
            path = tmp_path / "out.root"
            assert (await aio.export(dataset, path)).events == 2
            again = await store.root.create_dataset("b")
            assert (await aio.ingest([path], again)).events == 2
            assert (await again.arrays("n")).tolist() == [5, 7]

    run(main)


def test_what_brings_files_in_and_out_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    path, n = tmp_path / "in.root", 300_000
    numbers = {"run": np.ones(n, "u4"), "luminosityBlock": np.ones(n, "u4"), "event": np.arange(n)}
    fb.write(path, {**numbers, **{f"x{at}": np.arange(n) for at in range(5)}}, name="Events")

    async def main() -> None:
        async with aio.DataStore.connect("memory:") as store:
            dataset = await store.root.create_dataset("a")
            bringing = asyncio.ensure_future(aio.ingest(path, dataset))
            while await dataset.n_events() == 0:
                assert not bringing.done()
                await asyncio.sleep(0.001)
            bringing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await bringing
            n_there = await dataset.n_events()
            assert 0 < n_there < n
            assert await dataset.products() == []  # nothing records that the file is there
            assert (await aio.ingest(path, dataset)).kept > 0
            assert await dataset.n_events() == n

            out = tmp_path / "out.root"
            exporting = asyncio.ensure_future(aio.export(dataset, out))
            while len(list(tmp_path.iterdir())) == 1:
                assert not exporting.done()
                await asyncio.sleep(0.001)
            exporting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await exporting
            assert [one.name for one in tmp_path.iterdir()] == ["in.root"]

    run(main)


def test_pickled_values_stay_in_a_queue_until_they_may_be_had() -> None:
    async def main() -> None:
        store = await aio.DataStore.connect("memory:")
        await store.create_queue("q", "pickle")
        async with store.open_queue("q", "pickle", mode="producer") as producer:
            await producer.push({1, 2})
        consumer = await store.open_queue("q", "pickle", mode="consumer")
        with pytest.raises(fb.UsageError, match="unpickle=True"):
            await consumer.pop()
        assert await consumer.size() == 1
        trusting = await store.open_queue("q", "pickle", mode="consumer", unpickle=True)
        assert await trusting.pop() == {1, 2}

    run(main)
