from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('approvals', '0003_proposals_without_an_author')]

    operations = [
        migrations.AddIndex(
            model_name='proposal',
            index=models.Index(fields=['dataflow', '-finished_at'], name='newest_of_dataflow'),
        ),
    ]
