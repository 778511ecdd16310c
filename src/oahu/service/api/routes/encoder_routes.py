"""Operations on the encoder: encode texts or images, and fit the encoder again."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request

from oahu.service.api.access import CollectionForAdmin, CollectionForReading, get_service
from oahu.service.api.encoding import encode_texts_and_images
from oahu.service.api.routing import check_batch_size, new_router
from oahu.service.api.schemas.common_schemas import CollectionName
from oahu.service.api.schemas.encoder_schemas import EncodeRequest, EncodeResponse, RefitResponse
from oahu.service.encoder_process import InputKind

__all__ = ["router"]

router = new_router("encoder")


@router.post("/{name}/encode")
async def encode(
    request: Request, name: CollectionName, collection: CollectionForReading, body: EncodeRequest
) -> EncodeResponse:
    """Return the vectors of texts or images, without storing them."""
    kind: InputKind = "image" if body.texts is None else "text"
    inputs = body.texts or body.images or []
    check_batch_size(request, len(inputs), f"{kind}s")
    places = [f"{kind}s/{row}" for row in range(len(inputs))]
    return EncodeResponse(vectors=await encode_texts_and_images(collection, kind, inputs, places, fit=False))


@router.post("/{name}/encoder/refit")
async def refit_encoder(request: Request, name: CollectionName, collection: CollectionForAdmin) -> RefitResponse:
    """Fit the encoder on all texts of the collection, and encode these texts again.

    Feedback about the items stays. The learner learns it again with the new vectors. Searches use the old vectors
    meanwhile, and changes of the collection are rejected with status 503. An encoder function is not fitted: its
    texts are only encoded again.
    """
    return RefitResponse(texts=await to_thread.run_sync(get_service(request).refit_encoder, name))
