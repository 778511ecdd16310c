"""Operations on the metric: history, model file, restore."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request, Response

from oahu.service.api.access import CollectionForAdmin, CollectionForReading
from oahu.service.api.routing import new_router, wait_for
from oahu.service.api.schemas.common_schemas import CollectionName
from oahu.service.api.schemas.feedback_schemas import LogPosition, RestoreRequest
from oahu.service.api.schemas.metric_schemas import HistoryResponse, WeightsAtVersion

__all__ = ["router"]

router = new_router("metric")


@router.get("/{name}/history")
def get_history(name: CollectionName, collection: CollectionForReading) -> HistoryResponse:
    """Return how the weights of the metric changed."""
    points = [
        WeightsAtVersion(
            metric_version=moment.version,
            constraints=moment.constraints,
            weights=list(moment.weights),
            error_rate=moment.error_rate,
            time=moment.time,
        )
        for moment in collection.learner.history()
    ]
    return HistoryResponse(spaces=list(collection.published.weights), points=points)


@router.get(
    "/{name}/model",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "A file for oahu.load."}},
)
def download_model(name: CollectionName, collection: CollectionForReading) -> Response:
    """Return the learner as a file that oahu.load reads."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.oahu"'}
    return Response(collection.learner.model_file(), media_type="application/octet-stream", headers=headers)


@router.put(
    "/{name}/model",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def replace_model(request: Request, name: CollectionName, collection: CollectionForAdmin) -> LogPosition:
    """Replace the learner by one from a file. Learning continues with it."""
    data = await request.body()
    future = await to_thread.run_sync(collection.replace_model, data)
    return LogPosition(seq=await wait_for(future))


@router.post("/{name}/restore")
async def restore_metric(name: CollectionName, collection: CollectionForAdmin, body: RestoreRequest) -> LogPosition:
    """Restore an earlier version of the metric. All later feedback is undone."""
    return LogPosition(seq=await wait_for(collection.restore(body.metric_version)))
