"""What the blocking and the asyncio APIs share: arguments, times, settings and processes."""
