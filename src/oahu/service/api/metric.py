"""The metric itself: its history, its file, and going back."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request, Response

from oahu.service.api import models as m
from oahu.service.api.access import Admin, Reader
from oahu.service.api.routing import done, new_router

__all__ = ["router"]

router = new_router("metric")


@router.get("/{name}/history")
def history(name: m.Name, collection: Reader) -> m.History:
    """How the weights moved."""
    moments = [
        m.MomentOut(
            metric_version=one.version,
            constraints=one.constraints,
            weights=list(one.weights),
            loss=one.loss,
            time=one.time,
        )
        for one in collection.history()
    ]
    return m.History(parts=list(collection.published.weights), moments=moments)


@router.get(
    "/{name}/model",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "A file for oahu.load."}},
)
def download_model(name: m.Name, collection: Reader) -> Response:
    """The learner as a file that oahu.load reads."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.oahu"'}
    return Response(collection.model(), media_type="application/octet-stream", headers=headers)


@router.put(
    "/{name}/model",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def replace_model(request: Request, name: m.Name, collection: Admin) -> m.Undone:
    """Let a model from a file take over; learning goes on from there."""
    data = await request.body()
    future = await to_thread.run_sync(collection.replace_model, data)
    return m.Undone(seq=await done(future))


@router.post("/{name}/restore")
async def restore(name: m.Name, collection: Admin, to: m.Restore) -> m.Undone:
    """Go back to a version of the metric: nothing that was said after it counts any more."""
    return m.Undone(seq=await done(collection.restore(to.metric_version)))
