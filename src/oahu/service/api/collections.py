"""Operations on collections."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request

from oahu.service.api import models as m
from oahu.service.api.access import Admin, MayChange, MayRead, Reader, service_of
from oahu.service.api.routing import new_router
from oahu.service.records import CollectionConfig

__all__ = ["router"]

router = new_router("collections")


@router.post("", status_code=201)
async def create_collection(request: Request, access: MayChange, new: m.CollectionIn) -> m.CollectionOut:
    """Create a collection."""
    made = await to_thread.run_sync(service_of(request).create, CollectionConfig(**new.model_dump()))
    return m.CollectionOut(**made.describe())


@router.get("")
async def list_collections(request: Request, access: MayRead) -> m.Collections:
    """All collections."""
    found = service_of(request).collections
    return m.Collections(collections=[m.CollectionOut(**collection.describe()) for collection in found])


@router.get("/{name}")
async def describe_collection(name: m.Name, collection: Reader) -> m.CollectionOut:
    """A collection: what it was created with, what it has learned, how fresh its candidates are."""
    return m.CollectionOut(**collection.describe())


@router.delete("/{name}", status_code=204)
async def delete_collection(request: Request, name: m.Name, collection: Admin) -> None:
    """Delete a collection and everything in it."""
    await to_thread.run_sync(service_of(request).delete, name)
