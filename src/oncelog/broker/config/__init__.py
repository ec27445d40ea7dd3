"""The settings of the broker and of its topics: their names, types, defaults and values, as Kafka has them."""
