"""The classes of the event store for asyncio; `femtobarn.aio` exports them."""
