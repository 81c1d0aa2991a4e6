"""Coroutines that sleep for most of the timeout, one after the other."""

import asyncio
import sys

SECONDS = float(sys.argv[1])


async def fetch(n):
    await asyncio.sleep(SECONDS / 3)
    return n


async def main():
    for n in range(3):
        await fetch(n)

asyncio.run(main())
