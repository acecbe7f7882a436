"""What the blocking and the asyncio faces share: arguments, times, settings and processes."""
