"""What the experiments on learned representations need: images, networks, trainings, baselines, evaluation."""
