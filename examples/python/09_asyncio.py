"""An event store with asyncio: store and load many events concurrently, and use a queue between tasks."""

import asyncio

import numpy as np

import femtobarn as fb
from femtobarn import aio

N_EVENTS = 1000


async def fill(store: aio.DataStore) -> aio.DataSet:
    dataset = await store.root.create_dataset("fermilab/nova")
    rng = np.random.default_rng(1)
    hits = [rng.exponential(20, rng.integers(1, 9)) for _ in range(N_EVENTS)]
    async with store.write_batch() as batch:
        await batch.store_arrays(dataset, {"pt": hits}, run=43, subrun=0, event=np.arange(N_EVENTS))
    return dataset


async def refer_to_the_best(event: aio.Event) -> None:
    pt = await event.load("pt", fb.NumPy)
    await event.store("best", await event.ref("pt", index=int(pt.argmax())))


async def work(number: int, queue: aio.Queue, dataset: aio.DataSet) -> int:
    n_done = 0
    async for event_number in queue:  # ends when no producer has it open
        await refer_to_the_best(await dataset[43][0][event_number])
        n_done += 1
    return n_done


async def main() -> None:
    store = await aio.DataStore.connect("memory:")
    dataset = await fill(store)

    # Calls that are awaited together run concurrently.
    events = [event async for event in dataset.events()][:100]
    loaded = await asyncio.gather(*[event.load("pt") for event in events])
    print(f"loaded {len(loaded)} events at once, with {sum(map(len, loaded))} hits")

    # One task pushes, four take.
    await store.create_queue("events", int)
    async with store.open_queue("events", int, mode="producer") as producer:
        consumers = [await store.open_queue("events", int, mode="consumer") for _ in range(4)]
        workers = [asyncio.create_task(work(n, queue, dataset)) for n, queue in enumerate(consumers)]
        for event in events:
            await producer.push(event.number)
    print(f"{sum(await asyncio.gather(*workers))} events were done by 4 tasks")

    # References are a column; their products are loaded together.
    best = await dataset.arrays("best")
    values = await store.load_refs(best[: len(events)])
    print(f"the best of the first events: {np.round(values[:3].to_numpy(), 1)}")
    assert values.tolist() == [max(hits) for hits in loaded]

    # An async function, for all events, 8 at a time.
    async def total(event: aio.Event) -> float:
        return float((await event.load("pt")).to_numpy().sum())

    result = await aio.process(dataset, total, preload=["pt"], workers=8, reduce=lambda a, b: a + b, progress=False)
    print(f"the sum over {result.n_events} events is {result.value:.1f}")


asyncio.run(main())
