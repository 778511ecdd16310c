"""Operations on collections."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request

from oahu.service.api.access import (
    CollectionForAdmin,
    CollectionForReading,
    RequireAdmin,
    RequireRead,
    get_access,
    get_service,
)
from oahu.service.api.routing import new_router
from oahu.service.api.schemas.collection_schemas import (
    CollectionList,
    CollectionState,
    CreateCollection,
    UpdateCollection,
)
from oahu.service.api.schemas.common_schemas import CollectionName
from oahu.service.records import CollectionConfig

__all__ = ["router"]

router = new_router("collections")


@router.post("", status_code=201)
async def create_collection(request: Request, access: RequireAdmin, body: CreateCollection) -> CollectionState:
    """Create a collection."""
    get_access(request).check(request, "admin", body.name)
    collection = await to_thread.run_sync(get_service(request).create, CollectionConfig(**body.model_dump()))
    return CollectionState(**collection.describe())


@router.get("")
async def list_collections(request: Request, access: RequireRead) -> CollectionList:
    """List all collections that the API key can use."""
    collections = get_access(request).visible(request, get_service(request).collections)
    return CollectionList(collections=[CollectionState(**collection.describe()) for collection in collections])


@router.get("/{name}")
async def describe_collection(name: CollectionName, collection: CollectionForReading) -> CollectionState:
    """Return the configuration and the current state of a collection."""
    return CollectionState(**collection.describe())


@router.patch("/{name}")
async def update_collection(
    request: Request, name: CollectionName, collection: CollectionForAdmin, body: UpdateCollection
) -> CollectionState:
    """Change settings of a collection.

    Parameters of the learner and the number of implied constraints apply to all feedback: the service learns the
    feedback log again in the background. Searches use the old metric until the new metric is complete. Then
    ``metric_version`` is at least the ``last_seq`` of this response.
    """
    await to_thread.run_sync(collection.change_settings, body.model_dump(exclude_unset=True))
    return CollectionState(**collection.describe())


@router.delete("/{name}", status_code=204)
async def delete_collection(request: Request, name: CollectionName, collection: CollectionForAdmin) -> None:
    """Delete a collection with its items and feedback."""
    await to_thread.run_sync(get_service(request).delete, name)
