"""The demo: real flights through two pipelines that are killed on purpose, and a count of what came out."""
