"""The built-in text encoder: TF-IDF weights of words and word pairs, reduced by a truncated SVD (LSA)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.service.errors import InvalidRequestError

__all__ = ["LsaEncoder"]

_MAX_TERMS: Final = 30_000
_TOKEN: Final = r"(?u)\b\w+\b"


class LsaEncoder:
    """A text encoder that is fitted on texts (latent semantic analysis).

    A vector has length 1. A text without known terms has the vector 0.

    Parameters
    ----------
    terms : list of str
        The known words and word pairs, in the order of the rows of ``components``.
    idf : ndarray of shape (n_terms,)
        The inverse document frequency of each term.
    components : ndarray of shape (n_terms, dimension)
        The projection of TF-IDF weights to vectors.
    """

    def __init__(self, terms: Sequence[str], idf: NDArray[Any], components: NDArray[Any]) -> None:
        self.terms, self.idf, self.components = list(terms), idf, components
        self._vectorizer = _new_vectorizer(vocabulary={term: row for row, term in enumerate(self.terms)})
        self._vectorizer.idf_ = idf

    @property
    def dimension(self) -> int:
        """The number of features of a vector."""
        return int(self.components.shape[1])

    @classmethod
    def fit(cls, texts: Sequence[str], dimension: int) -> LsaEncoder:
        """Return an encoder for these texts. The same texts in the same order give the same encoder.

        If there are fewer texts or terms than features, the remaining features are 0.
        """
        from sklearn.utils.extmath import randomized_svd

        vectorizer = _new_vectorizer(max_features=_MAX_TERMS)
        try:
            weights = vectorizer.fit_transform(texts)
        except ValueError as error:  # no text contains a word
            raise InvalidRequestError(
                f"The encoder 'lsa' cannot be fitted on the {len(texts)} texts: {error}. At least one text must "
                "contain a word."
            ) from error
        n_axes = min(dimension, *weights.shape)
        _, _, axes = randomized_svd(weights, n_axes, random_state=0)
        components = np.zeros((weights.shape[1], dimension), np.float32)
        components[:, :n_axes] = axes.T
        return cls(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_, components)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, of shape (n_texts, dimension)."""
        if not len(texts):
            return np.empty((0, self.dimension), np.float32)
        vectors = np.asarray(self._vectorizer.transform(texts) @ self.components)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled: NDArray[np.float32] = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return scaled

    def to_bytes(self) -> bytes:
        """Return the encoder as the content of a safetensors file: arrays and the vocabulary as JSON."""
        from safetensors.numpy import save

        terms = np.frombuffer(json.dumps(self.terms).encode(), np.uint8)
        stored: bytes = save({"components": self.components, "idf": self.idf, "terms": terms})
        return stored

    @classmethod
    def from_bytes(cls, data: bytes) -> LsaEncoder:
        """Return the encoder that `to_bytes` stored. Raise ValueError for other data."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = load(data)
            terms = json.loads(arrays["terms"].tobytes())
            if not len(terms) == len(arrays["idf"]) == len(arrays["components"]):
                raise ValueError("the arrays have different lengths")
            return cls(terms, arrays["idf"], arrays["components"])
        except (SafetensorError, KeyError, TypeError) as error:
            raise ValueError(f"the data is not an encoder ({error!r})") from error


def _new_vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, strip_accents="unicode", token_pattern=_TOKEN, **options
    )
