"""Models by kind: catalogue and identity, `language`, `encoders`, `judge`, `training`. No metric lives here."""
