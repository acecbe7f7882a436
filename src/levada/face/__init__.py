"""What the blocking and the asyncio faces share: arguments, times, settings, processes and signals."""
