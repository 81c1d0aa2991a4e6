"""A future that nobody sets."""

import asyncio

async def main():
    await asyncio.get_running_loop().create_future()


asyncio.run(main())
