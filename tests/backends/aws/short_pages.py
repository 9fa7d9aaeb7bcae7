"""Pages of an index that end behind one entry, and show none where that entry is not in the index yet.

``Query`` says only by the lack of a ``LastEvaluatedKey`` that there is no more ("Paginating table query results",
developer guide: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html): a page may be
empty and have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any

from holdfast.backends.aws.connection import Connection


class ShortPages:
    """``late`` are the partitions whose entries are not shown; ``pages`` counts the pages that were not the last by how
    many entries they had.
    """

    def __init__(self, connection: Connection, late: Container[str]) -> None:
        self.pages = Counter[int]()
        self._connection = connection
        self._late = late

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if "IndexName" not in parameters:
            return await self._connection.send(operation, parameters)
        answer = await self._connection.send(operation, parameters | {"Limit": 1})
        shown = [entry for entry in answer["Items"] if entry["p"]["S"] not in self._late]
        self.pages[len(shown)] += "LastEvaluatedKey" in answer
        return answer | {"Items": shown, "Count": len(shown)}

    def close(self) -> None:
        self._connection.close()
