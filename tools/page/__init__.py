"""A local page in a browser that shows what a model does with a text.

    checkpoint --models.py--> model
    input --rows.py, predictions.py, attention.py, neighbors.py--> plain data
    plain data --drawing.py, svg.py, png.py--> escaped HTML and SVG
    views.py joins the two; tabs.py lists what the page has; site.py serves it

site.py is the only module that imports Gradio.
"""
