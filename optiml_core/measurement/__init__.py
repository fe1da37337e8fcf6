"""How fast is it: paired timing with statistics, and prediction where nothing can be timed."""

from optiml_core.measurement.pairs import PairPlan, PreparedRun, TimingDevice, measure_pairs, measure_prepared_pairs
from optiml_core.measurement.prediction import predict, speedup_prediction
from optiml_core.profiling.time_model import Prediction

__all__ = [
    "PairPlan",
    "Prediction",
    "PreparedRun",
    "TimingDevice",
    "measure_pairs",
    "measure_prepared_pairs",
    "predict",
    "speedup_prediction",
]
