"""What the blocking and the asyncio API share. Arguments become records, requests and flows here; sync/ and aio/ run the flows."""
