"""The public names of minitf and the modules that have them; `minitf/__init__.py` reads this list, too."""

from minitf.config import OptimizerConfig as OptimizerConfig
from minitf.config import RunConfig as RunConfig
from minitf.config import TransformerConfig as TransformerConfig
from minitf.config.model import BOS as BOS
from minitf.config.model import EOS as EOS
from minitf.config.model import PAD as PAD
from minitf.data.batches import Batches as Batches
from minitf.data.vocabulary import Vocabulary as Vocabulary
from minitf.decoding.greedy import greedy_search as greedy_search
from minitf.decoding.search import BeamSearchConfig as BeamSearchConfig
from minitf.decoding.search import beam_search as beam_search
from minitf.errors import UserError as UserError
from minitf.fast.accelerate import accelerate as accelerate
from minitf.model.layers import Dropout as Dropout
from minitf.model.layers import Embedding as Embedding
from minitf.model.layers import FeedForward as FeedForward
from minitf.model.layers import LayerNorm as LayerNorm
from minitf.model.layers import Linear as Linear
from minitf.model.layers import Module as Module
from minitf.model.parameters import Initializer as Initializer
from minitf.model.parameters import Parameter as Parameter
from minitf.model.transformer import MultiHeadAttention as MultiHeadAttention
from minitf.model.transformer import Transformer as Transformer
from minitf.training.optim import Adam as Adam
from minitf.training.optim import learning_rate as learning_rate
from minitf.translation.translator import Translator as Translator

__version__: str
