"""A server to which nobody connects."""

import asyncio
import sys

SECONDS = float(sys.argv[1])


async def serve():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    async with server:
        await asyncio.sleep(SECONDS)


asyncio.run(serve())
