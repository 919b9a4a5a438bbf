import torch

from equigrad.sampling.scramble import scramble


def test_is_the_output_of_splitmix64():
    """Its first outputs for the seed 1234567, as unsigned numbers."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    outputs = scramble(torch.tensor(1234567), torch.arange(4)).tolist()
    assert [output % 2**64 for output in outputs] == published


def test_neighbours_share_no_order():
    keys = scramble(torch.arange(100).unsqueeze(1), torch.arange(1000)).argsort(1)
    ranks = keys.double()
    correlation = torch.corrcoef(ranks)
    correlation.fill_diagonal_(0)
    assert correlation.abs().max() < 0.2
    assert len({tuple(order) for order in keys.tolist()}) == 100
