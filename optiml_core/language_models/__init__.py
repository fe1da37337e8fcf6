"""Language models behind one small interface: endpoints and local transformers."""
