"""A Flower app whose server is fair to every site."""
