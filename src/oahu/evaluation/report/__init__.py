"""Tables, figures and the HTML report of a benchmark."""
